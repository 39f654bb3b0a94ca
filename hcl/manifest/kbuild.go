package manifest

// kbuild { required_version } says which kbuild the manifest was written for.

func (l *loader) decodeKbuild() {
	b := l.named["kbuild"]
	if b == nil {
		return
	}
	r := l.reader(b, nil)
	text, ok := r.text("required_version")
	if !ok {
		return
	}
	rng := r.find("required_version").Expr.Range()
	c, err := ParseConstraint(text)
	switch {
	case err != nil:
		l.errorAt(rng, "", "required_version: %v", err)
	case !c.Allows(l.opts.Version):
		l.errorAt(rng, "Install a kbuild that meets the constraint.", "this manifest needs kbuild %s, and this is kbuild %s", text, l.opts.Version)
	}
}
