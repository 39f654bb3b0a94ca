package manifest

func (l *loader) decodeLibrary(b *block) {
	r := l.reader(b, nil)
	t := r.newTarget(Library)
	r.compile(t)
	t.Sources = r.sources(t)
	t.Shared = r.enum("type") == "shared"
	t.DeviceLink = r.isTrue("device_link")
	if t.Shared && t.DeviceLink {
		l.bothAt(r.find("device_link").NameRange, r.find("type").NameRange, "shared here", "Remove it.",
			"device_link is for a static library; a shared one always has a device link of its own")
	}
	l.project.Targets = append(l.project.Targets, t)
}
