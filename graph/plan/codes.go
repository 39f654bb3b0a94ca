package plan

import (
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// codes is a gencode with its sets expanded, by kind. Each list is in ascending order without
// repeats.
type codes struct {
	sass, ptx, lto, gfx []gencode.Code
}

// shipped returns the codes that a GPU can run: machine code and PTX, or AMD code.
func (c codes) shipped() []gencode.Code { return slices.Concat(c.sass, c.ptx, c.gfx) }

func (c *codes) add(e gencode.Code) {
	switch e.Kind {
	case gencode.SASS:
		c.sass = append(c.sass, e)
	case gencode.PTX:
		c.ptx = append(c.ptx, e)
	case gencode.LTO:
		c.lto = append(c.lto, e)
	case gencode.GFX:
		c.gfx = append(c.gfx, e)
	}
}

func (c *codes) sort() {
	for _, list := range []*[]gencode.Code{&c.sass, &c.ptx, &c.lto, &c.gfx} {
		slices.SortFunc(*list, gencode.Compare)
		*list = slices.Compact(*list)
	}
}

// compileCodes returns the codes that a compile in the given mode generates for a target that ships
// c.
func (c codes) compileCodes(mode string) []gencode.Code {
	var out []gencode.Code
	if mode == "lto" {
		for _, s := range c.sass {
			out = append(out, s.As(gencode.LTO))
		}
	} else {
		out = append(append(out, c.sass...), c.ptx...)
	}
	out = append(out, c.lto...)
	slices.SortFunc(out, gencode.Compare)
	return slices.Compact(out)
}

func spell(list []gencode.Code) string { return strings.Join(names(list), ", ") }

func names(list []gencode.Code) []string {
	var s []string
	for _, c := range list {
		s = append(s, c.String())
	}
	return s
}
