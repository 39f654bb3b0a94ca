package manifest

func (l *loader) decodeExecutable(b *block) {
	r := l.reader(b, nil)
	t := r.newTarget(Executable)
	r.compile(t)
	t.Sources = r.sources(t)
	l.project.Targets = append(l.project.Targets, t)
}
