package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed project trivial
var embedded embed.FS

// sourceNames lists the CUDA sources in the order in which -sources selects them. The first two
// contain the edits.
var sourceNames = []string{
	"math", "gemm", "scan", "sort", "reduce", "stencil", "transform", "hist", "warp", "radix", "dreduce", "dscan",
}

// A variant is a kind of project.
type variant struct {
	name     string
	lto, cub bool
}

var variants = []variant{
	{name: "lto", lto: true},
	{name: "rdc"},
	{name: "cub-lto", lto: true, cub: true},
	{name: "cub-rdc", cub: true},
}

func variantsNamed(names []string) ([]variant, error) {
	var found []variant
	for _, n := range names {
		i := slices.IndexFunc(variants, func(v variant) bool { return v.name == n })
		if i < 0 {
			return nil, fmt.Errorf("no variant %q; there are lto, rdc, cub-lto, cub-rdc", n)
		}
		found = append(found, variants[i])
	}
	return found, nil
}

// A project determines the text of a tree.
type project struct {
	variant
	archs   []string
	sources []string
	ccbin   string
	libs    string // folder of the toolkit's libraries; "" if not needed
	edits   []edit
}

// An edit replaces a text in a file.
type edit struct{ file, from, to string }

// files returns the texts of the tree by path.
func (p project) files() (map[string]string, error) {
	files := map[string]string{
		"src/main.cpp": p.mainText(),
		"kernels.hcl":  p.manifest(),
		"build.ninja":  p.ninja(),
		"Makefile":     p.makefile(),
	}
	for _, s := range p.sources {
		text, err := embedded.ReadFile("project/cub/" + s + ".cu")
		if err != nil || !p.cub {
			text, err = embedded.ReadFile("project/plain/" + s + ".cu")
		}
		if err != nil {
			return nil, err
		}
		files["src/"+s+".cu"] = string(text)
	}
	header, err := embedded.ReadFile("project/common.cuh")
	if err != nil {
		return nil, err
	}
	files["src/common.cuh"] = string(header)
	for _, e := range p.edits {
		if !strings.Contains(files[e.file], e.from) {
			panic(fmt.Sprintf("BUG: %s has no %q to edit", e.file, e.from))
		}
		files[e.file] = strings.Replace(files[e.file], e.from, e.to, 1)
	}
	return files, nil
}

// write updates a folder. Files that already have the right text keep their mtime.
func (p project) write(dir string) error {
	files, err := p.files()
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

func (p project) mainText() string {
	var b strings.Builder
	b.WriteString("struct Params {\n    int n;\n    float a, b;\n    int rounds;\n};\n\n")
	for _, s := range p.sources {
		fmt.Fprintf(&b, "int run_%s(const float *, float *, Params);\n", s)
	}
	b.WriteString("\nint main() {\n    Params p{1024, 1, 2, 3};\n    int r = 0;\n")
	for _, s := range p.sources {
		fmt.Fprintf(&b, "    r |= run_%s(nullptr, nullptr, p);\n", s)
	}
	return b.String() + "    return r != 0;\n}\n"
}

// manifest returns the project's kernels.hcl.
func (p project) manifest() string {
	mode := "rdc"
	if p.lto {
		mode = "lto"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "executable \"app\" {\n  code = [%s]\n  mode = %q\n  std  = \"c++17\"\n  sources = [\n    \"src/main.cpp\",\n",
		`"`+strings.Join(p.archs, `", "`)+`"`, mode)
	for _, s := range p.sources {
		fmt.Fprintf(&b, "    \"src/%s.cu\",\n", s)
	}
	return b.String() + "  ]\n}\n"
}

// flags returns the options of compiles, device links and links that depend on architectures,
// variant and toolkit.
func (p project) flags() (compile, link, libs string) {
	for _, a := range p.archs {
		nn := strings.TrimPrefix(a, "sm_")
		code := a
		if p.lto {
			code = "lto_" + nn
		}
		compile += fmt.Sprintf(" --generate-code=arch=compute_%s,code=%s", nn, code)
		link += fmt.Sprintf(" --generate-code=arch=compute_%s,code=%s", nn, a)
	}
	if p.lto {
		link = " -dlto" + link
	}
	if p.libs != "" {
		libs = " -L" + p.libs
	}
	return compile, link, libs
}

// makefile returns the project's Makefile, with the same commands. make does not notice a changed
// command; users run make clean after changing flags. So all objects depend on the Makefile.
func (p project) makefile() string {
	compile, link, libs := p.flags()
	objects := ""
	for _, s := range p.sources {
		objects += " out/" + s + ".o"
	}
	return fmt.Sprintf(`out/app: out/main.o%[5]s out/dlink.o
	%[1]s -o $@ $^%[4]s -lcudadevrt -lcudart_static -lrt -lpthread -ldl
out/dlink.o:%[5]s
	nvcc -ccbin %[1]s -dlink%[3]s -Xnvlink -ignore-host-info -Xcompiler -fvisibility=hidden -o $@ $^
out/%%.o: src/%%.cu Makefile
	@mkdir -p out
	nvcc -ccbin %[1]s -dc%[2]s -std=c++17 -O2 -MD -MT $@ -MF $@.d -o $@ -x cu $<
out/main.o: src/main.cpp Makefile
	@mkdir -p out
	%[1]s -c -std=c++17 -O2 -MD -MF $@.d -o $@ $<
-include $(wildcard out/*.d)
`, p.ccbin, compile, link, libs, objects)
}

// ninja returns the project's build.ninja. It has the command lines of kbuild's unsplit nvcc, with
// a launcher in front. Architectures are spelled as in CMake. ccache mistakes -gencode for a debug
// option like -g3, hashes the folder, and misses in every second checkout. With --generate-code= it
// hits.
func (p project) ninja() string {
	compile, link, libs := p.flags()
	var b strings.Builder
	fmt.Fprintf(&b, `include launcher.ninja

rule cuda
  command = $launcher nvcc -ccbin %[1]s -dc%[2]s -std=c++17 -O2 -MD -MT $out -MF $out.d -o $out -x cu $in
  depfile = $out.d
  deps = gcc
rule cxx
  command = $launcher %[1]s -c -std=c++17 -O2 -MD -MF $out.d -o $out $in
  depfile = $out.d
  deps = gcc
rule device_link
  command = $launcher nvcc -ccbin %[1]s -dlink%[3]s -Xnvlink -ignore-host-info -Xcompiler -fvisibility=hidden -o $out $in
rule link
  command = %[1]s -o $out $in%[4]s -lcudadevrt -lcudart_static -lrt -lpthread -ldl

`, p.ccbin, compile, link, libs)
	objects := ""
	for _, s := range p.sources {
		fmt.Fprintf(&b, "build out/%[1]s.o: cuda src/%[1]s.cu\n", s)
		objects += " out/" + s + ".o"
	}
	fmt.Fprintf(&b, "build out/main.o: cxx src/main.cpp\nbuild out/dlink.o: device_link%[1]s\nbuild out/app: link out/main.o%[1]s out/dlink.o\n", objects)
	return b.String()
}
