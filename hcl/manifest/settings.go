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
			rec := &record{}
			l.reader(b, nil).decode(rec)
			l.project.Cache = rec.cache
		case "package":
			rec := &record{pkg: Package{Pos: position(b.rng)}}
			r := l.reader(b, nil)
			r.decode(rec)
			if strings.ContainsAny(rec.pkg.Description, "\r\n") {
				r.fault("description", "", "the description of a package is one line")
			}
			l.project.Package = &rec.pkg
		case "defaults":
			// There is no merging: a target that sets defines, flags or includes gets none of
			// those of the defaults. This finds mistakes even if no target uses them.
			l.reader(b, nil).newTarget("")
		}
	}
}

// decodeRequired checks the versions of kbuild that may load the manifest.
func (l *loader) decodeRequired(b *block) {
	r, rec := l.reader(b, nil), &record{}
	r.decode(rec)
	c, err := ParseConstraint(rec.version)
	if err == nil && !c.Allows(l.opts.Version) {
		r.fault("required_version", "Install a kbuild that meets the constraint.",
			"this manifest needs kbuild %s, and this is kbuild %s", rec.version, l.opts.Version)
	}
}

// A profile is a named set of values for variables. Any other name in it is an error, even in a
// profile that this run does not use.

func (l *loader) checkProfile(b *block) {
	known := l.names["variable"]
	for _, a := range b.attrs() {
		if l.variables[a.Name] == nil {
			l.errorAt(a.NameRange, knownNames("variable", known),
				"%s sets %q, which is no variable%s", b.heading(), a.Name, didYouMean(a.Name, known))
		}
	}
}
