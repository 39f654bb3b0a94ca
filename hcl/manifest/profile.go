package manifest

// A profile is a named set of values for variables; anything else in it is an error, also in a
// profile that this run does not use.

func (l *loader) checkProfile(b *block) {
	known := l.names["variable"]
	for _, a := range b.attrs() {
		if l.variables[a.Name] == nil {
			l.errorAt(a.NameRange, knownNames("variable", known), "%s sets %q, which is no variable%s", b.heading(), a.Name, didYouMean(a.Name, known))
		}
	}
}
