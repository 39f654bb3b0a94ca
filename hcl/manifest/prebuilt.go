package manifest

func (l *loader) decodePrebuilt(b *block) {
	r := l.reader(b, nil)
	t := r.newTarget(Prebuilt)
	archive, shared := b.body.Attributes["archive"], b.body.Attributes["shared"]
	switch {
	case archive == nil && shared == nil:
		l.errorAt(b.rng, `Write archive = "libNAME.a" or shared = "libNAME.so".`, "%s names neither an archive nor a shared file", b.heading())
	case archive != nil && shared != nil:
		l.bothAt(shared.NameRange, archive.NameRange, "and here", "Keep one of them, or make two blocks.", "%s names an archive and a shared file", b.heading())
	}
	t.Archive, t.SharedFile = r.path("archive"), r.path("shared")
	t.Includes, t.LibDirs, t.Libs = r.paths("includes"), r.paths("lib_dirs"), r.noPrefix("libs", "-l")
	t.floats(r) // of bare LTO-IR, which does not say how it was compiled
	t.LTO = r.enum("lto")
	l.project.Targets = append(l.project.Targets, t)
}

// path reads the path of a file, "" if it is not there.
func (r *reader) path(name string) string {
	s, ok := r.text(name)
	if !ok {
		return ""
	}
	if s == "" {
		r.l.errorAt(r.find(name).Expr.Range(), "", "%s is empty", name)
		return ""
	}
	return r.sourcePath(s)
}
