package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// ELFs are the architectures of the machine code in a file, sorted, each once.
func (p *Project) ELFs(file string) string {
	out, _ := p.Run("cuobjdump", "--list-elf", file)
	archs := regexp.MustCompile(`sm_\d+[a-z]?`).FindAllString(out, -1)
	slices.Sort(archs)
	return strings.Join(slices.Compact(archs), " ")
}

// disassemble gives what nvdisasm says of each image of machine code in a file, by the image's name, which ends in its architecture.
// `cuobjdump --dump-sass` says the same, and takes 25 times as long over the 200 KiB of the device runtime's library.
func (p *Project) disassemble(file string, options ...string) map[string]string {
	p.T.Helper()
	x := p.In(p.T.TempDir())
	x.Run("cuobjdump", "--extract-elf", "all", filepath.Join(p.Dir, file))
	cubins, _ := filepath.Glob(x.Dir + "/*.cubin")
	if len(cubins) == 0 {
		p.T.Fatalf("no cubin in %s", file)
	}
	said := map[string]string{}
	for _, c := range cubins {
		name := strings.TrimPrefix(filepath.Base(c), strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
		said[name], _ = x.Run(append(append([]string{"nvdisasm"}, options...), c)...)
	}
	return said
}

// Calls are the functions that a kernel calls in the machine code of a program, over all architectures.
func (p *Project) Calls(file, kernel string) string {
	var found []string
	for _, out := range p.disassemble(file, "-c") {
		in := false
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(line, ".text.") {
				in = strings.Contains(line, kernel)
			}
			if m := regexp.MustCompile("CALL[^`]*`\\(([^)]*)\\)").FindStringSubmatch(line); in && m != nil {
				found = append(found, m[1])
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// ModuleID are the ids in an object or archive: nvcc's are made of the absolute path, kbuild's are not, and names of static variables
// hold them.
var ModuleID = regexp.MustCompile(`_[0-9a-f]{8}_[0-9]+_[0-9A-Za-z_]*?_(?:cu|cpp)_[0-9A-Za-z_]{1,8}`)

// DeviceCode is the machine code in a file, without what differs between two module ids: the ids and the hashes that names hold
// for them.
func (p *Project) DeviceCode(file string) string {
	p.T.Helper()
	images := p.disassemble(file, "-hex", "-c")
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(images)) {
		fmt.Fprintf(&out, "%s\n%s", name, ModuleID.ReplaceAllString(images[name], "<id>"))
	}
	return regexp.MustCompile(`__nv_static_\d+_`).ReplaceAllString(out.String(), "__nv_static_N_")
}

// Manifest reads the manifest of a module.
func (p *Project) Manifest(name string) modinfo.Manifest {
	p.T.Helper()
	m, problems := modinfo.Decode(p.Read(name))
	if problems != nil {
		p.T.Fatalf("%s: %v", name, problems)
	}
	return *m
}

// Kernels are what a manifest says that its artifacts export.
func (p *Project) Kernels(manifest string) string {
	p.T.Helper()
	var list []string
	for _, a := range p.Manifest(manifest).Artifacts {
		text, err := json.Marshal([]any{a.File, a.Kernels, a.Images, a.LTOSymbols})
		if err != nil {
			p.T.Fatal(err)
		}
		list = append(list, ModuleID.ReplaceAllString(string(text), "<id>"))
	}
	return strings.Join(list, "\n")
}
