package scaffold

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// vendor is whose device code a new manifest ships, and the names that stand for it there.
type vendor struct {
	ending                     string // of its sources
	variable, gencode, library string
	code, describe             string
}

var (
	nvidia = vendor{".cu", "archs", "nvidia", "cuda_kernels", `"sm_80", "sm_90"`, "Code to ship: sm_* is SASS, compute_* is PTX."}
	amd    = vendor{".hip", "hip_archs", "amd", "hip_kernels", `"gfx90a"`, "Code to ship: gfx* is a HIP code object."}
)

// vendors are those that have sources, NVIDIA if there are none. A single one needs no names of its own.
func (s Sources) vendors() []vendor {
	var found []vendor
	for _, v := range []vendor{nvidia, amd} {
		if len(s.of(v, s.Programs))+len(s.of(v, s.Others)) > 0 {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		found = []vendor{nvidia}
	}
	if len(found) == 1 {
		found[0].variable, found[0].gencode = "archs", "gpus"
	}
	return found
}

// of are the files of a vendor.
func (s Sources) of(v vendor, files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool { return filepath.Ext(f) != v.ending })
}

// Manifest is a manifest for sources, as kbuild fmt has it.
func Manifest(s Sources) string {
	var b strings.Builder
	vendors := s.vendors()
	b.WriteString("# kernels.hcl: written by kbuild init. See kbuild's docs/manifest.md.\n\n")
	for _, v := range vendors {
		fmt.Fprintf(&b, "variable %q {\n  type        = list(string)\n  default     = [%s]\n  description = %q\n}\n\n", v.variable, v.code, v.describe)
	}
	if s.relocatable {
		b.WriteString("variable \"lto\" {\n  type    = bool\n  default = true\n}\n\n" +
			"# While editing, kbuild --profile dev: quick links, in build/dev. Going back and forth builds nothing again.\n" +
			"profile \"dev\" {\n  lto = false\n}\n\n")
	}
	for _, v := range vendors {
		fmt.Fprintf(&b, "gencode %q {\n  code = var.%s\n}\n\n", v.gencode, v.variable)
	}
	mode := `"whole"`
	if s.relocatable {
		mode = `var.lto ? "lto" : "rdc"`
	}
	fmt.Fprintf(&b, "defaults {\n  gencode = gencode.%s\n  mode    = %s\n", vendors[0].gencode, mode)
	if s.includes != nil {
		fmt.Fprintf(&b, "\n  includes = %s\n", quoteList(s.includes))
	}
	b.WriteString("}\n")
	s.writeTargets(&b, vendors)
	return b.String()
}

// part is a library of a new manifest.
type part struct {
	name    string
	files   []string
	ending  string // of the programs that need it; "" is all
	gencode string // the line that says so, where it is not that of defaults
}

// parts are the libraries. Device code of two vendors goes into libraries of their own, host code into one for both.
func (s Sources) parts(vendors []vendor) []part {
	if len(vendors) == 1 {
		name := "common"
		if len(s.Programs) == 0 {
			name = "kernels"
		}
		return []part{{name: name, files: s.Others}}
	}
	parts := []part{{name: "common"}}
	for _, f := range s.Others {
		if ext := filepath.Ext(f); ext != nvidia.ending && ext != amd.ending {
			parts[0].files = append(parts[0].files, f)
		}
	}
	for _, v := range vendors {
		parts = append(parts, part{v.library, s.of(v, s.Others), v.ending, gencodeLine(vendors, v.ending)})
	}
	return parts
}

// gencodeLine is what a target of the second vendor says.
func gencodeLine(vendors []vendor, ending string) string {
	if len(vendors) > 1 && ending == vendors[1].ending {
		return fmt.Sprintf("  gencode = gencode.%s\n", vendors[1].gencode)
	}
	return ""
}

// writeTargets writes libraries and programs. A program of host code gets the kernels of the first vendor.
func (s Sources) writeTargets(b *strings.Builder, vendors []vendor) {
	parts := slices.DeleteFunc(s.parts(vendors), func(p part) bool { return len(p.files) == 0 })
	for _, p := range parts {
		fmt.Fprintf(b, "\nlibrary %q {\n  sources = %s\n%s}\n", p.name, quoteList(p.files), p.gencode)
	}
	used := map[string]int{}
	for _, m := range s.Programs {
		ending := nvidia.ending
		if filepath.Ext(m) == amd.ending {
			ending = amd.ending
		}
		fmt.Fprintf(b, "\nexecutable %q {\n  sources = [%q]\n%s", programName(m, used), m, gencodeLine(vendors, ending))
		var deps []string
		for _, p := range parts {
			if p.ending == "" || p.ending == ending {
				deps = append(deps, "library."+p.name)
			}
		}
		if len(deps) > 0 {
			fmt.Fprintf(b, "  deps    = [%s]\n", strings.Join(deps, ", "))
		}
		b.WriteString("}\n")
	}
}

var nameRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_.+-]+`) })

// programName is the source's base name, or its folder's for main.cu, made unique.
func programName(m string, used map[string]int) string {
	name := strings.TrimSuffix(filepath.Base(m), filepath.Ext(m))
	if name == "main" && filepath.Dir(m) != "." && filepath.Base(filepath.Dir(m)) != "src" {
		name = filepath.Base(filepath.Dir(m))
	}
	name = nameRE().ReplaceAllString(name, "_")
	used[name]++
	if n := used[name]; n > 1 {
		name = fmt.Sprintf("%s_%d", name, n)
	}
	return name
}

func quoteList(list []string) string {
	if len(list) == 1 {
		return fmt.Sprintf("[%q]", list[0])
	}
	var b strings.Builder
	b.WriteString("[\n")
	for _, s := range list {
		fmt.Fprintf(&b, "    %q,\n", s)
	}
	b.WriteString("  ]")
	return b.String()
}
