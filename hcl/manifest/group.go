package manifest

// decodeGroup reads a named list of targets; groups may be in groups.
func (l *loader) decodeGroup(b *block) {
	r := l.reader(b, nil)
	r.required()
	l.project.Groups = append(l.project.Groups, Group{Name: b.name, Targets: r.deps("targets"), Pos: position(b.rng)})
}
