package install

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// pkgName returns the pkg-config name of a library: the name of the package for the library of that
// name.
func (k *Package) pkgName(e plan.Export) string {
	if e.Name == k.Name {
		return k.Name
	}
	return k.Name + "-" + e.Name
}

// pkgConfig returns the text of NAME.pc. cudalibdir is the folder where kbuild found the toolkit's
// libraries; pkg-config --define-variable=cudalibdir=DIR replaces it. pkg-config does not support
// device links. Build systems that run one read device_link, device_link_options, device_code and
// archive.
func (k *Package) pkgConfig(e plan.Export) (string, error) {
	if err := k.readCode(); err != nil {
		return "", err
	}
	l := e.Links
	w := &strings.Builder{}
	fmt.Fprintf(w, "# Written by kbuild install. It finds its files from where it is.\n")
	fmt.Fprintf(w, "prefix=${pcfiledir}/../..\nlibdir=${prefix}/%s\nincludedir=${prefix}/%s\n", libDir, includeDir)
	fmt.Fprintf(w, "device_code=%s\n", strings.Join(k.found[e.Label].all(), " "))
	fmt.Fprintf(w, "device_link=%s\n", map[bool]string{true: "yes", false: "no"}[l.DeviceLink])
	if l.DeviceLink {
		fmt.Fprintf(w, "device_link_options=%s\n", deviceLink(l))
	}
	if l.Floats != nil {
		fmt.Fprintf(w, "lto_options=%s\n", strings.Join(l.Floats, " "))
	}
	if l.CUDA {
		fmt.Fprintf(w, "cudart=%s\n", cmp.Or(l.Runtime, "static"))
	}
	if l.HostLTO != "" {
		fmt.Fprintf(w, "host_lto=%s\n", l.HostLTO)
	}
	if installs(e) && !e.Shared {
		fmt.Fprintf(w, "archive=${prefix}/%s\n", libPath(e))
	}
	args := k.pkgLibs(e)
	if i := slices.Index(args, "-L${cudalibdir}"); i >= 0 {
		fmt.Fprintf(w, "cudalibdir=%s\n", cudaLibDir(l))
	}
	fmt.Fprintf(w, "\nName: %s\n", k.pkgName(e))
	fmt.Fprintf(w, "Description: %s\n", cmp.Or(k.Description, "GPU code, built by kbuild"))
	fmt.Fprintf(w, "Version: %s\n", cmp.Or(k.Version, "0"))
	var needs []string
	for _, label := range e.Needs {
		needs = append(needs, k.pkgName(k.named(label)))
	}
	if requires := strings.Join(needs, ", "); requires != "" && e.Shared {
		fmt.Fprintf(w, "Requires.private: %s\n", requires)
	} else if requires != "" {
		fmt.Fprintf(w, "Requires: %s\n", requires)
	}
	var cflags []string
	if k.hasHeaders() {
		cflags = append(cflags, "-I${includedir}")
	}
	for _, d := range e.Links.Defines {
		cflags = append(cflags, pkgQuoted("-D"+d))
	}
	if cflags != nil {
		fmt.Fprintf(w, "Cflags: %s\n", strings.Join(cflags, " "))
	}
	fmt.Fprintf(w, "Libs: %s\n", strings.Join(args, " "))
	return w.String(), nil
}

// deviceLink returns the options that a device link needs: of nvcc -dlink, or of hipcc --hip-link.
func deviceLink(l plan.Links) string {
	switch {
	case l.Other != nil && l.LTO:
		return "-fgpu-rdc -foffload-lto"
	case l.Other != nil:
		return "-fgpu-rdc"
	case l.LTO:
		return "-dlto"
	}
	return ""
}

// pkgLibs returns the arguments of a link. pkg-config itself quotes blanks in the folder of its
// file, but requires quotes in other paths.
func (k *Package) pkgLibs(e plan.Export) (args []string) {
	switch {
	case e.Links.Always && installs(e): // one word, since pkg-config removes repeated words
		args = append(args, "-Wl,--whole-archive,${libdir}/"+path.Base(libPath(e))+",--no-whole-archive")
	case e.Links.Always:
		args = append(args, pkgQuoted("-Wl,--whole-archive,"+cache.Absolute(k.root, e.File)+",--no-whole-archive"))
	case installs(e):
		args = append(args, "-L${libdir}", "-l"+linkName(libPath(e), e))
	case !e.HeaderOnly:
		args = append(args, pkgQuoted(cache.Absolute(k.root, e.File)))
	}
	if e.Shared {
		return args
	}
	for _, d := range e.Links.LibDirs {
		args = append(args, pkgQuoted("-L"+cache.Absolute(k.root, d)))
	}
	for _, lib := range e.Links.Libs {
		args = append(args, "-l"+lib)
	}
	switch l := e.Links; {
	case l.Runtime == "none":
	case l.CUDA:
		if cudaLibDir(l) != "" {
			args = append(args, "-L${cudalibdir}")
		}
		for _, lib := range cuda.RuntimeLibs(l.Runtime, "", l.DeviceLink || l.Closed) {
			args = append(args, "-l"+lib)
		}
	case l.Other != nil:
		if _, lib, ok := strings.Cut(runtime(e), "::"); ok {
			args = append(args, "-l"+lib)
		}
	}
	return slices.Compact(args)
}

// cudaLibDir returns the folder of the toolkit's libraries, or "".
func cudaLibDir(l plan.Links) string {
	for _, dir := range l.CUDADirs {
		if path.Base(dir) != "stubs" {
			return dir
		}
	}
	return ""
}

func pkgQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// linkName returns the name by which -l finds a file.
func linkName(file string, e plan.Export) string {
	base := file[strings.LastIndex(file, "/")+1:]
	if e.Plain != "" {
		base = e.Plain[strings.LastIndex(e.Plain, "/")+1:]
	}
	for _, ending := range []string{".a", ".so"} {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(base, ending), "lib"); ok && name != "" && strings.HasSuffix(base, ending) {
			return name
		}
	}
	return ":" + base
}
