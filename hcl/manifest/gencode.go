package manifest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// A gencode block is a named list of code to ship. A target refers to one, or has its own list in
// the attribute code. --arch replaces both.

// gencodeOf reads a gencode block.
func (l *loader) gencodeOf(b *block) Gencode {
	g, ok := l.gencodes[b]
	if !ok {
		l.reader(b, nil).decode(&g)
		g.Code = l.replaceArch(g.Code)
		l.gencodes[b] = g
	}
	return g
}

// gencode reads a reference to a gencode block.
func (r *reader) gencode(f *field) Gencode {
	if f.val.Type() == referenceType {
		t := f.val.EncapsulatedValue().(*target)
		if t.kind == "gencode" {
			return r.l.gencodeOf(r.l.named[t.label()])
		}
		r.l.errorAt(f.rng, "Write gencode = gencode.NAME.", "%s is no gencode", t.label())
		return Gencode{}
	}
	switch s, ok := asText(f.val); {
	case ok && slices.Contains(r.l.names["gencode"], s):
		r.l.errorAt(f.rng, "Write gencode."+s+", without quotes.",
			"gencode needs a reference, not a string")
	case ok || isList(f.val):
		r.l.errorAt(f.rng, `Write gencode.NAME, or code = ["sm_90"] for a list of its own.`,
			"gencode needs a reference, not %s", typeName(f.val))
	default:
		f.wrong("a reference such as gencode.NAME")
	}
	return Gencode{}
}

// codes reads a list of code names.
func (r *reader) codes(f *field) []gencode.Code {
	var out []gencode.Code
	for _, it := range f.items() {
		c, err := gencode.Parse(it.text)
		if err != nil {
			r.l.errorAt(it.rng, codeHelp, "%q is no architecture%s", it.text, codeMeant(it.text))
		} else if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if isEmpty(f.val) {
		r.l.errorAt(f.rng, codeHelp, "%s is empty", f.row.Name)
	}
	nvidia := func(c gencode.Code) bool { return !isGFX(c) }
	if slices.ContainsFunc(out, isGFX) && slices.ContainsFunc(out, nvidia) {
		r.l.errorAt(f.rng, "Make two targets, one for each vendor.",
			"%s mixes CUDA and HIP code", f.row.Name)
	}
	return out
}

const codeHelp = "sm_80 is SASS, compute_80 PTX, lto_80 LTO-IR, gfx90a, gfx11-generic and " +
	"amdgcnspirv HIP; native, all and all-major are sets."

var looseCode = pattern(
	`(?i)^(sm|compute|lto)?[-_ ]?([1-9][0-9]?)\.?([0-9])([af]?)(?:-real)?$`)

// codeMeant suggests a name for spellings of other tools: sm80, 8.0, 80-real, SM_90.
func codeMeant(s string) string {
	if m := looseCode().FindStringSubmatch(s); m != nil {
		kind := cmp.Or(strings.ToLower(m[1]), "sm")
		return meant(kind + "_" + m[2] + m[3] + strings.ToLower(m[4]))
	}
	if n, ok := strings.CutSuffix(s, "-virtual"); ok && looseCode().MatchString(n) {
		return strings.Replace(codeMeant(n), `"sm_`, `"compute_`, 1)
	}
	return didYouMean(s,
		strings.Fields("native all all-major gfx90a gfx942 gfx1100 gfx11-generic amdgcnspirv "+
			"sm_80 sm_90"))
}

func isGFX(c gencode.Code) bool { return c.Kind == gencode.GFX }

// replaceArch applies --arch: it replaces the shipped code of the same vendor. LTO-IR for run-time
// linking stays, and so does a list that contains nothing else.
func (l *loader) replaceArch(codes []gencode.Code) []gencode.Code {
	for _, vendor := range []func(gencode.Code) bool{isGFX, shipsNVIDIA} {
		want := slices.DeleteFunc(l.archs(), func(c gencode.Code) bool { return !vendor(c) })
		if len(want) == 0 || !slices.ContainsFunc(codes, vendor) {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(codes), vendor)
		codes = append(want, rest...)
	}
	return codes
}

// narrowArch applies --arch to the code of a partition: it keeps the requested codes. It keeps all
// if none was requested, since the sources must be compiled for something.
func (l *loader) narrowArch(codes []gencode.Code) []gencode.Code {
	want := l.archs()
	kept := slices.DeleteFunc(slices.Clone(codes),
		func(c gencode.Code) bool { return !slices.Contains(want, c) })
	if len(kept) == 0 {
		return codes
	}
	return kept
}

// shipsNVIDIA reports whether c is SASS, PTX, or a set of them.
func shipsNVIDIA(c gencode.Code) bool {
	return c.Kind == gencode.SASS || c.Kind == gencode.PTX || c.Kind == gencode.Set
}

// archs parses --arch; one argument may contain several names, separated by commas.
func (l *loader) archs() []gencode.Code {
	var out []gencode.Code
	for _, arg := range l.opts.Arch {
		for s := range strings.SplitSeq(arg, ",") {
			s = strings.TrimSpace(s)
			c, err := gencode.Parse(s)
			switch {
			case err != nil:
				l.errorf("Pass for example --arch sm_80,sm_90, --arch native or --arch gfx90a.",
					"--arch: %q is no architecture%s", s, codeMeant(s))
			case c.Kind == gencode.LTO:
				l.errorf("--arch replaces SASS and PTX, or gfx code; LTO-IR in a gencode stays as it "+
					"is. Pass for example --arch "+c.As(gencode.SASS).String()+".",
					"--arch: %s is LTO-IR and does not run on a GPU", s)
			case !slices.Contains(out, c):
				out = append(out, c)
			}
		}
	}
	return out
}
