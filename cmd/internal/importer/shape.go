package importer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// This file converts targets of other tools into blocks. A block has one value of most attributes
// for all its sources. Differences that a partition cannot express become flags, or the sources
// become a separate library.

var nameRE = pattern(`[^A-Za-z0-9_-]+`)

// plainName returns a name that is a valid HCL identifier.
func plainName(s string) string {
	s = strings.Trim(nameRE().ReplaceAllString(s, "_"), "_-")
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "t" + s
	}
	return s
}

// shaper converts targets into blocks.
type shaper struct {
	*Build
	doc      *Document
	targets  []*Target
	byName   map[string]*Target
	prebuilt map[string]*block
	whole    map[string]bool // archives that all users link whole; see Target.Whole
	lto      bool
}

// Manifest returns a manifest for the build.
func (b *Build) Manifest() *Document {
	s := &shaper{Build: b, doc: &Document{}, byName: map[string]*Target{},
		prebuilt: map[string]*block{}, whole: map[string]bool{}}
	s.doc.Head = []string{"kernels.hcl: written by kbuild init, from " + b.From + ".",
		"See kbuild's docs/init.md and docs/manifest.md."}
	s.doc.Lost = "Not carried over"
	if b.Draft {
		s.doc.Head = append(s.doc.Head, "Targets, device code and modes are guesses; flags and definitions are unknown.")
		s.doc.Lost = "Left out, or not built by default"
	}
	for _, t := range b.Targets {
		s.targets = append(s.targets, s.parts(t)...)
	}
	for _, t := range s.targets {
		if t.Kind != "executable" || s.byName[t.Name] == nil { // a library may have a program's name
			s.byName[t.Name] = t
		}
		s.lto = s.lto || slices.ContainsFunc(t.Groups, func(g *Group) bool { return g.Mode == "lto" })
	}
	s.closeDeps()
	s.wholeArchives()
	blocks := map[*Target]*block{}
	for _, t := range s.targets {
		blocks[t] = s.shape(t)
	}
	s.toolchain()
	s.share(blocks)
	for _, file := range slices.Sorted(maps.Keys(s.prebuilt)) {
		s.doc.blocks = append(s.doc.blocks, s.prebuilt[file])
	}
	group := &block{kind: "group", name: "default",
		comments: []string{"What kbuild builds. What else there is needs what was not found."}}
	var built []string
	for _, t := range s.targets {
		s.doc.blocks = append(s.doc.blocks, blocks[t])
		if len(t.Aside) == 0 {
			built = append(built, blocks[t].label())
		}
	}
	if len(built) < len(s.targets) {
		group.items("targets", "[", built)
		s.doc.blocks = append(s.doc.blocks, group)
	}
	s.doc.Notes = b.Notes
	b.dropTreePaths(s.doc)
	return s.doc
}

// share moves attributes that all targets have alike into defaults: the device code, which targets
// without any ignore, and in a draft others too.
func (s *shaper) share(blocks map[*Target]*block) {
	defaults := &block{kind: "defaults"}
	keys := []string{"code", "mode", "includes", "flags", "libs"}
	if !s.Draft {
		keys = keys[:1]
	}
	for _, key := range keys {
		var first *attribute
		alike := true
		for _, t := range s.targets {
			a := blocks[t].attribute(key)
			switch {
			case a == nil:
				alike = alike && key == "code"
			case first == nil:
				first = a
			default:
				alike = alike && a.text() == first.text()
			}
		}
		if first == nil || !alike {
			continue
		}
		defaults.attrs = append(defaults.attrs, first)
		for _, b := range blocks {
			b.remove(b.attribute(key))
		}
	}
	if len(defaults.attrs) > 0 {
		s.doc.blocks = append(s.doc.blocks, defaults)
	}
}

// toolchain requires the compiler of the other build. Another version would generate other device
// code.
func (s *shaper) toolchain() {
	b := &block{kind: "toolchain", name: "cuda"}
	if v := strings.SplitN(s.Version, ".", 3); len(v) > 1 {
		var minor int
		fmt.Sscanf(v[1], "%d", &minor)
		b.set("version", quote(fmt.Sprintf(">= %s.%s, < %s.%d", v[0], v[1], v[0], minor+1)))
	}
	if s.CCBin != "" {
		b.set("host_compiler", quote(s.CCBin))
	}
	if len(b.attrs) > 0 && slices.ContainsFunc(s.targets, (*Target).hasDevice) {
		s.doc.blocks = append(s.doc.blocks, b)
	}
}

// fixed returns a key of the settings that neither a partition nor a flag can change.
func (g *Group) fixed() string {
	text := func(b *bool) string {
		if b == nil {
			return ""
		}
		return fmt.Sprint(*b)
	}
	return fmt.Sprint(g.Codes, g.Std, g.FastMath, text(g.FTZ), text(g.PrecDiv), text(g.PrecSqrt), text(g.FMAD), g.MaxRegisters, g.DeviceDebug)
}

// parts splits a target. Device sources with different fixed settings move to separate libraries.
// Host code stays in the first part.
func (s *shaper) parts(t *Target) []*Target {
	groups := t.Groups
	first := *t
	t, first.Groups = &first, nil
	out := []*Target{t}
	keys := map[string]*Target{}
	for _, g := range groups {
		to := t
		if g.Language == "cuda" {
			if to = keys[g.fixed()]; to == nil {
				if to = t; len(keys) > 0 {
					to = &Target{Name: fmt.Sprintf("%s_part%d", t.Name, len(out)+1), Kind: cmp.Or(map[string]string{"module": "module"}[t.Kind], "library"), Emit: t.Emit, Relinks: t.Relinks}
					to.AlwaysLink = t.closed()
					out = append(out, to)
					t.Deps = append(slices.Clip(t.Deps), to.Name)
					s.note(t.Name, "%s are compiled with options that one target cannot have beside others: %s is a library of them",
						strings.Join(g.Sources, ", "), to.Name)
				}
				keys[g.fixed()] = to
			}
		}
		to.Groups = append(to.Groups, g)
	}
	return out
}

// closeDeps removes deps that kbuild rejects, and deps that would add code to a program.
func (s *shaper) closeDeps() {
	for _, t := range s.targets {
		t.Deps = slices.DeleteFunc(slices.Clone(t.Deps), func(d string) bool { return s.byName[d] == nil || s.byName[d] == t })
	}
	for _, t := range s.targets {
		if t.Kind != "library" || t.Shared || s.Draft {
			continue
		}
		t.Deps = slices.DeleteFunc(t.Deps, func(d string) bool {
			for _, u := range s.targets {
				if u.closed() && slices.Contains(u.Deps, t.Name) && !slices.Contains(u.Deps, d) && !strings.HasPrefix(d, t.Name+"_part") {
					return true
				}
			}
			return s.dependsOn(s.byName[d], t.Name)
		})
	}
}

// closed reports whether the target is linked.
func (t *Target) closed() bool { return t.Kind == "executable" || t.Shared }

// wholeArchives selects the archives that get always_link, which applies to every target that links
// them.
func (s *shaper) wholeArchives() {
	for _, t := range s.targets {
		for _, archive := range t.Whole {
			other := slices.IndexFunc(s.targets, func(u *Target) bool {
				return u.closed() && (slices.Contains(u.Deps, archive) || slices.Contains(u.Prebuilt, archive)) && !slices.Contains(u.Whole, archive)
			})
			if other < 0 {
				s.whole[archive] = true
			} else {
				s.note(t.Name, "--whole-archive of %s: always_link = true is for all who link it, and %s links what it refers to",
					archive, s.targets[other].Name)
			}
		}
	}
}

// dependsOn reports whether a target depends on a named one.
func (s *shaper) dependsOn(t *Target, name string) bool {
	todo := slices.Clone(t.Deps)
	for i := 0; i < len(todo); i++ {
		for _, d := range s.byName[todo[i]].Deps {
			todo = appendNew(todo, d)
		}
	}
	return slices.Contains(todo, name)
}

// shape builds the block of a target.
func (s *shaper) shape(t *Target) *block {
	b := &block{kind: t.Kind, name: plainName(t.Name), comments: t.Aside}
	if t.From != "" {
		b.comments = append([]string{"By " + t.From + "."}, b.comments...)
	}
	first := t.Groups[max(0, slices.IndexFunc(t.Groups, func(g *Group) bool { return g.Language != "asm" }))]
	device := slices.IndexFunc(t.Groups, (*Group).isDevice)
	if device >= 0 {
		first = t.Groups[device]
	}
	b.attrs = append(b.attrs, t.sources())
	if t.Shared {
		b.set("type", `"shared"`)
	}
	if t.SOVersion != "" {
		b.set("soversion", quote(t.SOVersion))
	}
	if t.OutputName != "" {
		b.set("output_name", quote(t.OutputName))
	}
	if t.DeviceLink {
		b.set("device_link", "true")
	}
	if t.AlwaysLink || s.whole[t.Name] {
		b.set("always_link", "true")
	}
	if t.Emit != "" {
		b.list("emit", []string{t.Emit})
	}
	b.items("deps", "[", s.deps(t))
	if device >= 0 {
		s.device(b, t, first)
	}
	s.alike(b, t, first)
	b.list("libs", t.Libs)
	b.list("lib_dirs", t.LibDirs)
	if t.CudaRT != "" {
		b.set("cudart", quote(t.CudaRT))
	}
	return b
}

// sources lists the sources, with glob() for the patterns of the target.
func (t *Target) sources() *attribute {
	var listed, globs []string
	for _, g := range t.Groups {
		for _, f := range g.Sources {
			if !slices.ContainsFunc(t.Globs, func(p string) bool { ok, _ := path.Match(p, f); return ok }) {
				listed = append(listed, quote(f))
			}
		}
	}
	globs = quoted(t.Globs)
	switch {
	case len(globs) == 0:
		return &attribute{key: "sources", open: "[", items: listed}
	case len(listed) == 0:
		return &attribute{key: "sources", expr: "glob(" + strings.Join(globs, ", ") + ")"}
	}
	return &attribute{key: "sources", open: "concat(glob(" + strings.Join(globs, ", ") + "), [", items: listed}
}

// isDevice reports whether the sources may have device code.
func (g *Group) isDevice() bool { return g.Language == "cuda" || g.Language == "hip" }

// deps returns the references to dependencies. It adds prebuilt blocks for files.
func (s *shaper) deps(t *Target) (refs []string) {
	for _, d := range t.Deps {
		refs = append(refs, s.byName[d].Kind+"."+plainName(d))
	}
	for _, file := range t.Prebuilt {
		b := s.prebuilt[file]
		if b == nil {
			name := plainName(strings.TrimPrefix(path.Base(file), "lib"))
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_a"), "_so")
			b = &block{kind: "prebuilt", name: name}
			for n := 2; slices.ContainsFunc(slices.Collect(maps.Values(s.prebuilt)), func(o *block) bool { return o.name == b.name }); n++ {
				b.name = fmt.Sprintf("%s_%d", name, n)
			}
			key := "shared"
			if path.Ext(file) == ".a" {
				key = "archive"
			}
			b.set(key, quote(file))
			if s.whole[file] {
				b.set("always_link", "true")
			}
			if s.lto && key == "archive" {
				b.set("lto", `"none"`)
			}
			s.prebuilt[file] = b
		}
		refs = append(refs, b.label())
	}
	return refs
}

// device sets the attributes of device code.
func (s *shaper) device(b *block, t *Target, g *Group) {
	codes := g.Codes
	sass := func(c gencode.Code) bool { return c.Kind == gencode.SASS }
	whole := func(g *Group) bool { return g.Language == "cuda" && g.Mode == "whole" }
	if slices.ContainsFunc(codes, sass) && !slices.ContainsFunc(t.Groups, whole) {
		var kept []gencode.Code
		for _, c := range codes {
			if c.Kind == gencode.PTX {
				s.note(t.Name, "PTX (%s): a device link drops it, and did in the other build", c)
			} else {
				kept = append(kept, c)
			}
		}
		codes = kept
	}
	var names []string
	for _, c := range codes {
		names = append(names, c.String())
	}
	b.list("code", names)
	switch {
	case g.ModeWhy != "":
		b.set("mode", quote(g.Mode), g.ModeWhy)
	case g.Mode != "whole":
		b.set("mode", quote(g.Mode))
	}
	on := func(key string, v bool) {
		if v {
			b.set(key, "true")
		}
	}
	on("fast_math", g.FastMath)
	for _, f := range []struct {
		key string
		on  *bool
	}{{"ftz", g.FTZ}, {"prec_div", g.PrecDiv}, {"prec_sqrt", g.PrecSqrt}, {"fmad", g.FMAD}} {
		if f.on != nil {
			b.set(f.key, fmt.Sprint(*f.on))
		}
	}
	if g.MaxRegisters > 0 {
		b.set("max_registers", fmt.Sprint(g.MaxRegisters))
	}
	on("device_debug", g.DeviceDebug)
	on("lineinfo", g.LineInfo)
}
