package probe

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Doctor prints what a build would find, with a fix for each fault, and reports whether everything
// that a CUDA build needs works.
func Doctor(ctx context.Context, out io.Writer, r Request, cacheDir string) bool {
	f, err := Collect(ctx, r)
	if err != nil {
		fmt.Fprintln(out, "fail  ", err)
		return false
	}
	d := &report{out: out, good: true}
	if k := f.CUDA; k == nil {
		d.fail("CUDA toolkit", f.CUDAError)
	} else {
		d.ok("CUDA toolkit", fmt.Sprintf("%s at %s", k.Build, k.NVCC.Path))
		d.ok("GPU code", fmt.Sprint(k.Archs[0], " to ", k.Archs[len(k.Archs)-1]))
		d.ok("host compiler of nvcc", fmt.Sprintf("%s (%s)", k.HostCXX.Path, k.HostCXX.Version))
		d.check("LTO", k.LTOFault, "nvlink finds libnvvm")
		d.check("cuobjdump", missing("cuobjdump", filepath.Join(k.Root, "bin")+":"+r.Env("PATH")), "found")
	}
	d.check("C++ compiler", f.CXX.Error, fmt.Sprintf("%s (%s)", f.CXX.Path, f.CXX.Version))
	d.check("C compiler", f.CC.Error, fmt.Sprintf("%s (%s)", f.CC.Path, f.CC.Version))
	d.check("archiver", f.AR.Error, f.AR.Path)
	if len(f.NativeGPU) == 0 {
		d.warn("GPU", "none here; that is fine for building, code = [\"native\"] needs one")
	} else {
		d.ok("GPU", fmt.Sprint(f.NativeGPU))
	}
	d.check("cache folder", unwritable(cacheDir), cacheDir)
	return d.good
}

type report struct {
	out  io.Writer
	good bool
}

func (d *report) ok(what, found string)   { fmt.Fprintf(d.out, "ok      %-22s %s\n", what, found) }
func (d *report) warn(what, found string) { fmt.Fprintf(d.out, "warning %-22s %s\n", what, found) }
func (d *report) fail(what, fix string) {
	d.good = false
	fmt.Fprintf(d.out, "fail    %-22s %s\n", what, fix)
}

func (d *report) check(what, fault, found string) {
	if fault != "" {
		d.fail(what, fault)
		return
	}
	d.ok(what, found)
}

func missing(name, path string) string {
	if find(name, path) == "" {
		return name + " was not found; it shows device code and comes with the toolkit."
	}
	return ""
}

// unwritable says why a folder cannot take files.
func unwritable(dir string) string {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Sprintf("%v; set KBUILD_CACHE_DIR to a folder you can write", err)
	}
	f, err := os.CreateTemp(dir, "doctor-*")
	if err != nil {
		return fmt.Sprintf("%s; set KBUILD_CACHE_DIR to a folder you can write", strings.TrimSpace(err.Error()))
	}
	f.Close()
	os.Remove(f.Name())
	return ""
}
