package manifest

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// Blocks about the project as a whole: kbuild, cache, package, profile, defaults.

func (l *loader) decodeSettings() {
	for _, b := range l.blocks {
		switch b.kind {
		case "kbuild":
			var needs struct {
				Version string `attr:"required_version"`
			}
			r := l.reader(b, nil)
			r.decode(&needs)
			if c, err := ParseConstraint(needs.Version); err == nil && !c.Allows(l.opts.Version) {
				r.fault("required_version", "Install a kbuild that meets the constraint.",
					"this manifest needs kbuild %s, and this is kbuild %s", needs.Version, l.opts.Version)
			}
		case "cache":
			// It has no credentials: a project must not be able to send a user's credentials to a
			// server of its choice.
			l.reader(b, nil).decode(&l.project.Cache)
		case "package":
			r, p := l.reader(b, nil), &Package{Pos: position(b.rng)}
			r.decode(p)
			if strings.ContainsAny(p.Description, "\r\n") {
				r.fault("description", "", "the description of a package is one line")
			}
			l.project.Package = p
		case "defaults":
			// There is no merging: a target that sets defines, flags or includes gets none of
			// those of the defaults. This finds mistakes even if no target uses them.
			l.reader(b, nil).newTarget("")
		}
	}
}

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
		r.l.errorAt(f.rng, "Write gencode = gencode.NAME.", "%s is not a gencode block", t.label())
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
			r.l.errorAt(it.rng, codeHelp, "%q is not an architecture%s", it.text, codeMeant(it.text))
		} else if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	if isEmpty(f.val) {
		r.l.errorAt(f.rng, codeHelp, "%s is empty", f.row.Name)
	}
	other := func(c gencode.Code) bool { return c.Language() != out[0].Language() }
	if slices.ContainsFunc(out, other) {
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

// replaceArch applies --arch: it replaces the shipped code of the same vendor. LTO-IR for run-time
// linking stays, and so does a list that contains nothing else.
func (l *loader) replaceArch(codes []gencode.Code) []gencode.Code {
	for _, language := range deviceLanguages {
		ships := func(c gencode.Code) bool { return c.Language() == language && c.Kind != gencode.LTO }
		want := slices.DeleteFunc(l.archs(), func(c gencode.Code) bool { return !ships(c) })
		if len(want) > 0 && slices.ContainsFunc(codes, ships) {
			codes = append(want, slices.DeleteFunc(slices.Clone(codes), ships)...)
		}
	}
	return codes
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
					"--arch: %q is not an architecture%s", s, codeMeant(s))
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

// A toolchain block names the compiler to use. The CUDA toolkit is found on the system, is in a
// given folder, or is pinned: NVIDIA's own wheels, which a lock file lists.

func (l *loader) decodeToolchain(b *block) {
	if !slices.Contains(deviceLanguages, b.name) {
		l.unknown(b.nameRng, "toolchain", b.name, deviceLanguages, "no toolchain named %q", b.name)
		return
	}
	var t struct {
		Toolchain
		From string `attr:"from"`
	}
	r := l.reader(b, nil)
	t.AttrPos = r.decode(&t)
	t.Pos, t.Pinned = position(b.rng), t.From == "pypi"
	r.checkToolkit(t.Toolchain)
	if t.Pinned {
		t.LockFile = strings.TrimSuffix(l.project.File, filepath.Ext(l.project.File)) + ".lock"
		if text, err := l.fsys.ReadFile(t.LockFile); err == nil {
			l.project.Files, l.project.sources[t.LockFile] = append(l.project.Files, t.LockFile), text
		}
	}
	l.project.Toolchains[b.name] = t.Toolchain
}

var releaseRE = pattern(`^[0-9]{1,9}(\.[0-9]{1,9}){2,3}$`)

// checkToolkit reports attributes of the CUDA toolkit that conflict.
func (r *reader) checkToolkit(t Toolchain) {
	for _, name := range []string{"from", "path", "parts"} {
		if r.b.name != "cuda" && r.find(name) != nil {
			r.fault(name, "", "%s is for toolchain \"cuda\"", name)
			return
		}
	}
	const one = "Remove one of them."
	switch {
	case t.Path != "" && t.Pinned:
		r.fault("path", one, "path names a toolkit, and from = \"pypi\" another")
	case t.Path != "" && t.Compiler != "":
		r.fault("compiler", one, "compiler names a program, and path the toolkit whose nvcc compiles")
	case t.Pinned && t.Compiler != "":
		r.fault("compiler", one, "compiler names a program, and the nvcc of from = \"pypi\" compiles")
	case t.Pinned && t.Version == "":
		r.fault("from", `For example: version = "13.5.0".`,
			"from = \"pypi\" needs a version, which is missing")
	case t.Pinned && !releaseRE().MatchString(t.Version):
		r.fault("version", `For example: version = "13.5.0".`,
			"from = \"pypi\" needs one exact version, and this is %q", t.Version)
	case t.Pinned && versionNumbers(t.Version)[0] < 13:
		r.fault("version", "PyPI has nvcc from 13.0.0 on. Install this one, and name its folder: "+
			`path = "/usr/local/cuda".`,
			"CUDA %s is not on PyPI", t.Version)
	case !t.Pinned && len(t.Parts) > 0:
		r.fault("parts", "", "parts is for from = \"pypi\"")
	}
}
