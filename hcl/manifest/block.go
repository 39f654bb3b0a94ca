package manifest

import "github.com/kbuild-dev/kbuild/cache"

// kbuild { required_version } restricts the versions of kbuild that may load the manifest.

func (l *loader) decodeKbuild() {
	for _, b := range l.blocks {
		if b.kind == "kbuild" {
			l.decodeRequired(b)
		}
	}
}

func (l *loader) decodeRequired(b *block) {
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

// cache { remote, read_only } names a remote cache. It has no credentials: a project must not be
// able to send a user's credentials to a server of its choice.

func (l *loader) decodeCache() {
	b := l.named["cache"]
	if b == nil {
		return
	}
	r := l.reader(b, nil)
	address, ok := r.text("remote")
	if ok {
		if _, err := cache.ParseAddress(address); err != nil {
			l.errorAt(r.find("remote").Expr.Range(), "Where there is none, write null.", "remote: %v", err)
		}
	}
	l.project.Cache = Cache{Remote: address, ReadOnly: r.isTrue("read_only")}
}

// A profile is a named set of values for variables. Any other name in it is an error, even in a
// profile that this run does not use.

func (l *loader) checkProfile(b *block) {
	known := l.names["variable"]
	for _, a := range b.attrs() {
		if l.variables[a.Name] == nil {
			l.errorAt(a.NameRange, knownNames("variable", known), "%s sets %q, which is no variable%s", b.heading(), a.Name, didYouMean(a.Name, known))
		}
	}
}

// defaults { ... } sets the attributes that a library, executable or module does not set itself.
// There is no merging: a target that sets defines, flags or includes gets none of those of the
// defaults. reader.find and loader.inherited apply the defaults; decodeDefaults checks the block
// alone.

func (l *loader) decodeDefaults() {
	for _, b := range l.blocks {
		if b.kind == "defaults" {
			r := l.reader(b, nil)
			r.reservedWords()
			r.compile(&Target{}) // finds mistakes even if no target uses them
		}
	}
}

// decodeGroup reads a named list of targets. A group may contain groups.
func (l *loader) decodeGroup(b *block) {
	r := l.reader(b, nil)
	r.required()
	l.project.Groups = append(l.project.Groups, Group{Name: b.name, Targets: r.deps("targets"), Pos: position(b.rng)})
}
