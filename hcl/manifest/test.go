package manifest

import (
	"fmt"
	"strings"
)

// decodeTest reads a test block. A test is not a target: nothing depends on it, and building
// everything runs no tests.
func (l *loader) decodeTest(b *block) {
	l.instances(b, func(r *reader, e each) {
		t := r.test()
		if e.key != "" {
			t.Name += ":" + e.key
		}
		l.project.Tests = append(l.project.Tests, t)
	})
}

func (r *reader) test() Test {
	l, b := r.l, r.b
	r.required()
	t := Test{Name: b.name, Args: plainTexts(r.texts("args")), NeedsGPU: r.isTrue("needs_gpu"), Memory: r.size("memory"), Deps: r.deps("deps"),
		Timeout: r.duration("timeout"), EachTime: r.field("cache") != nil && !r.isTrue("cache"), Pos: position(b.rng)}
	if f := r.field("executable"); f != nil {
		switch {
		case f.val.IsNull() || f.val.Type() != referenceType:
			l.errorAt(f.rng, "Write executable.NAME, without quotes.", "executable takes a reference, not %s", typeName(f.val))
		default:
			to := f.val.EncapsulatedValue().(*target)
			b := l.named[to.label()]
			switch t.Executable = to.label(); {
			case to.kind != string(Executable):
				l.errorAt(f.rng, "", "%s is no executable", to.label())
			case b != nil && b.hasEach() && len(l.each[b]) > 0:
				l.errorAt(f.rng, fmt.Sprintf("Name one of them: %s[%q].", to.label(), l.each[b][0].key), "%s stands for several programs", to.label())
			case !l.hasInstance(to, f.rng):
				t.Executable = ""
			}
		}
	}
	for _, it := range r.texts("data") {
		p := r.sourcePath(it.text)
		if l.generated[p] != "" || l.mustExist(p, it.rng) {
			t.Data = append(t.Data, p)
		}
	}
	values := r.textMap("env")
	for _, name := range sortedKeys(values) {
		if f := r.field("env"); name == "" || strings.ContainsAny(name, "=\x00") || values[name] == nil {
			l.errorAt(r.keyRange(f, name), "", "%q is no variable with a value", name)
			continue
		}
		t.Env = append(t.Env, name+"="+*values[name])
	}
	return t
}
