package manifest

import "slices"

var toolchainKinds = []string{"cuda", "hip"}

func (l *loader) decodeToolchain(b *block) {
	if !slices.Contains(toolchainKinds, b.name) {
		l.errorAt(b.nameRng, knownNames("toolchain", toolchainKinds), "no toolchain named %q%s", b.name, didYouMean(b.name, toolchainKinds))
		return
	}
	r := l.reader(b, nil)
	var t Toolchain
	t.Compiler, _ = r.text("compiler")
	t.HostCompiler, _ = r.text("host_compiler")
	t.Version, _ = r.text("version")
	if t.Version != "" {
		if _, err := ParseConstraint(t.Version); err != nil {
			l.errorAt(r.find("version").Expr.Range(), "", "version: %v", err)
		}
	}
	l.project.Toolchains[b.name] = t
}
