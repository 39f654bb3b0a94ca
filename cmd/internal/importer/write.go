package importer

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// write adds the blocks to the draft in order.
func (s *drafter) write() {
	d := s.draft
	for _, v := range s.vendors {
		if code := s.linkedCode(v.code); v.name == "nvidia" && len(code) < len(v.code) {
			v.code, v.from = code, strings.TrimSpace(v.from+" PTX is left out: device links drop it.")
		}
		b := &block{kind: "variable", name: v.variable}
		b.set("type", "list(string)")
		b.set("default", "["+strings.Join(quoted(v.code), ", ")+"]")
		if v.from != "" {
			b.comments = []string{v.from}
		}
		b.set("description", quote(v.describe))
		d.blocks = append(d.blocks, b)
	}
	defaults := &block{kind: "defaults"}
	s.share(defaults)
	if slices.ContainsFunc(s.targets, func(t *target) bool { m := s.modeOf(t, defaults); return strings.Contains(m, "var.lto") }) {
		lto := &block{kind: "variable", name: "lto"}
		lto.set("type", "bool")
		lto.set("default", "true")
		dev := &block{kind: "profile", name: "dev", comments: []string{"While editing, kbuild --profile dev: quick links, in build/dev. Going back and forth builds nothing again."}}
		dev.set("lto", "false")
		d.blocks = append(d.blocks, lto, dev)
	}
	for _, v := range s.vendors {
		b := &block{kind: "gencode", name: v.gencode}
		b.set("code", "var."+v.variable)
		d.blocks = append(d.blocks, b)
	}
	d.blocks = append(d.blocks, defaults)
	for _, name := range slices.Sorted(maps.Keys(s.prebuilts)) {
		d.blocks = append(d.blocks, s.prebuilts[name])
	}
	d.blocks = append(d.blocks, s.generates()...)
	var built []string
	aside := false
	for _, t := range s.targets {
		b := s.settings[t].block
		for _, key := range append([]string{"language"}, shared...) {
			if a := s.settings[t].attrs[key]; a != nil {
				b.attrs = append(b.attrs, a)
			}
		}
		d.blocks = append(d.blocks, b)
		if aside = aside || len(t.aside) > 0; len(t.aside) == 0 {
			built = append(built, t.label())
		}
	}
	if aside {
		group := &block{kind: "group", name: "default", comments: []string{"What kbuild builds. What else there is needs what was not found."}}
		group.items("targets", "[", built)
		d.blocks = append(d.blocks, group)
	}
}

// linkedCode returns code without PTX where all targets have device links, which drop it.
func (s *drafter) linkedCode(code []string) []string {
	whole := func(t *target) bool { return t.vendor == "nvidia" && s.modeOf(t, &block{}) == `"whole"` }
	machine := slices.DeleteFunc(slices.Clone(code), func(c string) bool { return strings.HasPrefix(c, "compute_") })
	if len(machine) == 0 || slices.ContainsFunc(s.targets, whole) {
		return code
	}
	return machine
}

func (s *drafter) modeOf(t *target, defaults *block) string {
	if a := s.settings[t].attrs["mode"]; a != nil {
		return a.expr
	}
	for _, a := range defaults.attrs {
		if a.key == "mode" {
			return a.expr
		}
	}
	return ""
}

// share moves attributes into defaults if all targets that can have them agree. A target without
// the attribute must not inherit it.
func (s *drafter) share(defaults *block) {
	for _, key := range shared {
		var first *attribute
		alike := len(s.targets) > 0
		for _, t := range s.targets {
			a := s.settings[t].attrs[key]
			device := key == "mode" || key == "gencode" || key == "fast_math" || key == "max_registers"
			switch {
			case a == nil && device && t.vendor == "":
			case a == nil || first != nil && a.text() != first.text():
				alike = alike && key == "gencode"
				if key == "mode" {
					alike = alike && a != nil
				}
			case first == nil:
				first = a
			}
		}
		if key == "mode" && first != nil && !alike {
			s.shareMode(defaults)
			continue
		}
		if !alike {
			s.shareMost(defaults, key)
			continue
		}
		if first == nil {
			continue
		}
		defaults.attrs = append(defaults.attrs, first)
		for _, t := range s.targets {
			if a := s.settings[t].attrs[key]; a != nil && a.text() == first.text() {
				delete(s.settings[t].attrs, key)
			}
		}
	}
}

// shareMode sets the default mode to whole, so that only other modes need an attribute.
func (s *drafter) shareMode(defaults *block) {
	defaults.set("mode", `"whole"`)
	for _, t := range s.targets {
		if a := s.settings[t].attrs["mode"]; a != nil && a.expr == `"whole"` {
			delete(s.settings[t].attrs, "mode")
		}
	}
}

// shareMost moves into defaults the value that most targets use. Every other target must have its
// own value or be able to set an empty one.
func (s *drafter) shareMost(defaults *block, key string) {
	votes, say := map[string]int{}, 0
	var most *attribute
	for _, t := range s.targets {
		if a := s.settings[t].attrs[key]; a != nil {
			say++
			if votes[a.text()]++; most == nil || votes[a.text()] > votes[most.text()] {
				most = a
			}
		}
	}
	empty := map[string]string{"includes": "[]", "libs": "[]", "defines": "{}", "flags": "{}"}[key]
	n := len(s.targets)
	if most == nil || n < 3 || 2*votes[most.text()] <= n || say < n && empty == "" {
		return
	}
	defaults.attrs = append(defaults.attrs, most)
	for _, t := range s.targets {
		attrs := s.settings[t].attrs
		switch a := attrs[key]; {
		case a == nil:
			attrs[key] = &attribute{key: key, expr: empty}
		case a.text() == most.text():
			delete(attrs, key)
		}
	}
}

// text returns an attribute without comments, for comparison.
func (a *attribute) text() string {
	out := a.key + "=" + a.expr + strings.Join(a.items, ",")
	for _, s := range a.sub {
		out += ";" + s.text()
	}
	return out
}

// generated returns the deps of a target on headers that CMake would generate.
func (s *drafter) generated(t *target) (deps []string) {
	headers := map[string]bool{}
	for _, u := range t.units {
		for header := range u.made {
			headers[header] = true
		}
	}
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		if s.made[header] == "" {
			s.made[header] = clean(strings.TrimSuffix(strings.ReplaceAll(header, "/", "_"), path.Ext(header)))
		}
		deps = append(deps, "generate."+s.made[header])
	}
	return deps
}

var (
	atRE     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`@(\w+)@|\$\{(\w+)\}`) })
	switchRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^[ \t]*#[ \t]*cmakedefine(01)?[ \t]+(\w+)(.*)$`)
	})
)

// generates returns blocks that replace configure_file, with the values that CMake would use.
func (s *drafter) generates() (blocks []*block) {
	for _, header := range slices.Sorted(maps.Keys(s.made)) {
		input, _ := s.configured(header)
		var c configured
		for _, m := range s.Tree.made {
			if m.input == input {
				c = m
			}
		}
		command := []string{`"sed"`, `"-n"`}
		edit := func(expr string) { command = append(command, `"-e"`, quote(expr)) }
		text := s.text(input)
		for _, m := range switchRE().FindAllStringSubmatch(text, -1) {
			on := constant(c.values[m[2]]) != no
			line := "/* #undef " + m[2] + " */"
			switch {
			case m[1] == "01":
				line = "#define " + m[2] + map[bool]string{true: " 1", false: " 0"}[on]
			case on:
				line = "#define " + m[2] + strings.TrimRight(m[3], "\r")
			}
			edit(fmt.Sprintf(`s|^[ 	]*#[ 	]*cmakedefine%s[ 	][ 	]*%s\([ 	].*\)*$|%s|`, m[1], m[2], sedText(line)))
		}
		seen := map[string]bool{}
		for _, m := range atRE().FindAllStringSubmatch(text, -1) {
			if !seen[m[0]] {
				seen[m[0]] = true
				edit("s|" + strings.NewReplacer("$", `[$]`, "{", "[{]").Replace(m[0]) + "|" + sedText(strings.TrimPrefix(c.values[m[1]+m[2]], "/SRC/")) + "|g")
			}
		}
		command = append(command, `"-e"`, `"w ${self.outputs[0]}"`, quote(input))
		b := &block{kind: "generate", name: s.made[header], comments: []string{"As configure_file of " + c.from + "."}}
		b.items("command", "[", command)
		b.list("inputs", []string{input})
		b.list("outputs", []string{header})
		blocks = append(blocks, b)
	}
	return blocks
}

func sedText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "&", `\&`, "|", `\|`, "\n", " ").Replace(s)
}

// leaveOut lists what is not built, each missing header once.
func (s *drafter) leaveOut() {
	byHeader := map[string][]string{}
	for _, u := range s.lacking {
		for _, n := range u.lacking {
			byHeader[n.header] = append(byHeader[n.header], u.file)
		}
	}
	for _, header := range slices.Sorted(maps.Keys(byHeader)) {
		s.draft.Notes = append(s.draft.Notes, fmt.Sprintf("%s was not found, for %s", header, several(byHeader[header])))
	}
	for _, t := range s.targets {
		for _, why := range t.aside {
			if strings.Contains(why, "Needs -l") {
				s.draft.Notes = append(s.draft.Notes, t.label()+": "+strings.ToLower(why[:1])+strings.TrimSuffix(why[1:], "."))
			}
		}
	}
	var unlisted []string
	for _, u := range s.unlisted {
		unlisted = append(unlisted, u.file)
	}
	s.leaveOutFiles("named in no build file, which names the others: ", unlisted)
	taken := map[string]bool{}
	for _, why := range slices.Sorted(maps.Keys(s.unwanted)) {
		for _, f := range s.unwanted[why] {
			taken[f] = true
		}
		s.leaveOutFiles(why, s.unwanted[why])
	}
	optional := map[string]string{}
	for _, u := range s.units {
		for _, n := range u.optional {
			optional[n.header] = n.from
		}
	}
	for _, header := range slices.Sorted(maps.Keys(optional)) {
		if byHeader[header] == nil {
			s.draft.Notes = append(s.draft.Notes, fmt.Sprintf("%s was not found; %s includes it in some cases only", header, optional[header]))
		}
	}
	included := s.includedAlone()
	s.leaveOutFiles("included by other sources, so not compiled: ", included)
	byEnding := map[string][]string{}
	for _, f := range s.others {
		byEnding[path.Ext(f)] = append(byEnding[path.Ext(f)], f)
	}
	for _, ending := range slices.Sorted(maps.Keys(byEnding)) {
		s.leaveOutFiles("kbuild has no language for "+ending+": ", byEnding[ending])
	}
	s.leaveOutFiles("links to folders outside are not followed: ", s.unfollowed)
	s.leaveOutFiles("named in a build file, in a folder of others' code: ", slices.DeleteFunc(slices.Clone(s.foreign), func(f string) bool {
		return len(s.byBase[path.Base(f)]) > 1 || !s.hintsOf(f).named[path.Base(f)]
	}))
	for _, f := range slices.Concat(included, unlisted) {
		taken[f] = true
	}
	for _, u := range s.lacking {
		taken[u.file] = true
	}
	for _, t := range s.targets {
		for _, u := range t.units {
			taken[u.file] = true
		}
	}
	s.leaveOutFiles("no target needs: ", slices.DeleteFunc(slices.Clone(s.Tree.sources), func(f string) bool { return taken[f] }))
}

// leaveOutFiles adds files that are not in the manifest to LeftOut.
func (s *drafter) leaveOutFiles(why string, files []string) {
	if len(files) > 0 {
		s.draft.Notes = append(s.draft.Notes, why+several(files))
	}
}

// includedAlone returns the sources that are only included by others.
func (s *drafter) includedAlone() (files []string) {
	for _, f := range slices.Sorted(maps.Keys(s.included)) {
		if !slices.ContainsFunc(s.units, func(u *unit) bool { return u.file == f }) {
			files = append(files, f)
		}
	}
	return files
}

// several lists a few files and counts the rest.
func several(files []string) string {
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(files[:5], ", "), len(files)-5)
	}
	return strings.Join(files, ", ")
}
