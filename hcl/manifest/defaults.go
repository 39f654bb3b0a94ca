package manifest

// defaults { ... } fills what a library, executable or module does not set itself. There is no
// merging: a target that sets defines, flags or includes has its own and nothing of the defaults.
// reader.find and loader.inherited do the filling; here is what can be said of the block alone.

func (l *loader) decodeDefaults() {
	b := l.named["defaults"]
	if b == nil {
		return
	}
	r := l.reader(b, nil)
	r.reservedWords()
	r.compile(&Target{}) // finds mistakes even if no target uses them
}
