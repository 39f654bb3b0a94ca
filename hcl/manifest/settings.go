package manifest

import "strings"

// Blocks about the project as a whole: kbuild, cache, package, profile, defaults.

func (l *loader) decodeSettings() {
	for _, b := range l.blocks {
		switch b.kind {
		case "kbuild":
			l.decodeRequired(b)
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

// decodeRequired checks the versions of kbuild that may load the manifest.
func (l *loader) decodeRequired(b *block) {
	var needs struct {
		Version string `attr:"required_version"`
	}
	r := l.reader(b, nil)
	r.decode(&needs)
	c, err := ParseConstraint(needs.Version)
	if err == nil && !c.Allows(l.opts.Version) {
		r.fault("required_version", "Install a kbuild that meets the constraint.",
			"this manifest needs kbuild %s, and this is kbuild %s", needs.Version, l.opts.Version)
	}
}

// A profile is a named set of values for variables. Any other name in it is an error, even in a
// profile that this run does not use.

func (l *loader) checkProfile(b *block) {
	for _, a := range b.attrs() {
		if !l.has("variable", a.Name) {
			l.unknown(a.NameRange, "variable", a.Name, l.names["variable"],
				"%s sets %q, which is no variable", b.heading(), a.Name)
		}
	}
}
