package manifest

import (
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// compiled reads a target that has sources.
func (r *reader) compiled(kind Kind) *Target {
	t := r.newTarget(kind)
	r.compile(t)
	t.Sources = r.sources(t)
	return t
}

func (l *loader) decodeLibrary(b *block) {
	r := l.reader(b, nil)
	t := r.compiled(Library)
	t.Shared = r.enum("type") == "shared"
	t.DeviceLink = r.isTrue("device_link")
	if t.Shared && t.DeviceLink {
		l.bothAt(r.find("device_link").NameRange, r.find("type").NameRange, "shared here", "Remove it.",
			"device_link is for a static library; a shared one always has a device link of its own")
	}
	l.project.Targets = append(l.project.Targets, t)
}

func (l *loader) decodeExecutable(b *block) {
	l.project.Targets = append(l.project.Targets, l.reader(b, nil).compiled(Executable))
}

// decodeModule makes one target, or one for each instance of the matrix.
func (l *loader) decodeModule(b *block) {
	if b.body.Attributes["matrix"] == nil {
		if a := b.body.Attributes["exclude"]; a != nil {
			l.errorAt(a.NameRange, "Remove it, or add matrix = { axis = [...] }.", "exclude needs a matrix")
		}
		l.project.Targets = append(l.project.Targets, l.reader(b, nil).module())
		return
	}
	for _, inst := range l.matrices[b] {
		r := l.reader(b, map[string]cty.Value{"matrix": cty.ObjectVal(inst.values)})
		t := r.module()
		t.Name, t.Matrix = inst.name(b.name), inst.axes
		l.project.Targets = append(l.project.Targets, t)
	}
}

func (r *reader) module() *Target {
	t := r.compiled(Module)
	t.Emit = r.emit()
	for _, n := range r.b.nested {
		if n.kind == "embed" {
			t.Embed = r.embed(n)
		}
	}
	return t
}

// emit reads what files a module ships; a fatbin unless it says otherwise.
func (r *reader) emit() []string {
	var out []string
	emits, seen := r.b.schema.Attribute("emit").Words, map[string]bool{}
	for _, it := range r.texts("emit") {
		switch {
		case !slices.Contains(emits, it.text):
			r.l.errorAt(it.rng, knownNames("kind", emits), "emit: %q is no kind of device code file%s", it.text, didYouMean(it.text, emits))
		case !seen[it.text]:
			seen[it.text] = true
			out = append(out, it.text)
		}
	}
	if len(out) == 0 {
		return []string{"fatbin"}
	}
	return out
}

func (l *loader) decodePrebuilt(b *block) {
	r := l.reader(b, nil)
	t := r.newTarget(Prebuilt)
	archive, shared := b.body.Attributes["archive"], b.body.Attributes["shared"]
	switch {
	case archive == nil && shared == nil:
		l.errorAt(b.rng, `Write archive = "libNAME.a" or shared = "libNAME.so".`, "%s names neither an archive nor a shared file", b.heading())
	case archive != nil && shared != nil:
		l.bothAt(shared.NameRange, archive.NameRange, "and here", "Keep one of them, or make two blocks.", "%s names an archive and a shared file", b.heading())
	}
	t.Archive, t.SharedFile = r.path("archive"), r.path("shared")
	t.Includes, t.LibDirs, t.Libs = r.paths("includes"), r.paths("lib_dirs"), r.noPrefix("libs", "-l")
	t.floats(r) // of bare LTO-IR, which does not say how it was compiled
	t.LTO = r.enum("lto")
	l.project.Targets = append(l.project.Targets, t)
}

// path reads the path of a file, "" if it is not there.
func (r *reader) path(name string) string {
	s, ok := r.text(name)
	if !ok {
		return ""
	}
	if s == "" {
		r.l.errorAt(r.find(name).Expr.Range(), "", "%s is empty", name)
		return ""
	}
	return r.sourcePath(s)
}
