package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/hip"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Links of clang's new offload driver read only objects of the new driver, and links of the old
// driver only old objects (hip.ErrNewDriver). A link silently ignores the device code of the other
// driver and writes a program without it. So kbuild links with the driver that compiled the
// objects, whatever the default is, and rejects a mix.

// noteDriver records which driver compiles the relocatable code of a source. learned is the result
// of its dry run, which is more reliable than its options.
func (b *builder) noteDriver(t *target, s manifest.Source, passes *hip.Passes, learned error) {
	if s.Mode == "whole" {
		return
	}
	option, isNew := hip.ChoosesDriver(s.Flags.HIP)
	switch {
	case learned == nil:
		isNew = passes.New
	case errors.Is(learned, hip.ErrNewDriver):
		isNew = true
	case option == "":
		isNew = b.facts.HIP.CompilesNew
	}
	if t.drivers == nil {
		t.drivers = map[bool]madeBy{}
	}
	if _, noted := t.drivers[isNew]; !noted {
		t.drivers[isNew] = madeBy{s.Path, t.driverPos(s, option)}
	}
}

// madeBy is a source with relocatable code, and the position of the setting that selects its
// driver.
type madeBy struct {
	source string
	pos    manifest.Pos
}

// driverPos returns the position of the flag that selects a driver for a source, or else of its
// mode.
func (t *target) driverPos(s manifest.Source, option string) manifest.Pos {
	if option != "" {
		return t.flag(s.Flags, option)
	}
	return t.modePos(s)
}

// linkDriver returns the driver of a link of t: the one that compiled the relocatable code of its
// sources, or else of the first prebuilt object.
func (g *given) linkDriver(t *target, l linkage) (isNew bool) {
	for _, u := range append([]*target{t}, l.statics...) {
		if len(u.drivers) > 0 {
			_, isNew = u.drivers[true]
			return isNew
		}
	}
	for _, u := range l.pre {
		for _, m := range g.facts.Prebuilt[u.file].Members {
			if m.Relocatable && m.amd() {
				return m.NewDriver
			}
		}
	}
	return g.facts.HIP.LinksNew
}

// checkDrivers rejects a link of objects of both drivers.
func (ck *checks) checkDrivers(t *target, l linkage) bool {
	var made [2]struct {
		madeBy
		label string
	}
	for _, u := range append([]*target{t}, l.statics...) {
		for isNew, by := range u.drivers {
			i := map[bool]int{true: 1}[isNew]
			if made[i].label == "" {
				made[i].madeBy, made[i].label = by, u.label
			}
		}
	}
	older, newer := made[0], made[1]
	if older.label == "" || newer.label == "" {
		return true
	}
	ck.bothf(newer.pos, older.pos, older.source+" of "+older.label+" is compiled by the old one",
		"A link takes relocatable code of one driver and ignores that of the other. Choose one for all, or set mode = \"whole\" for one.",
		"%s links %s of %s, which clang's new offload driver compiles, with objects of the old one", t.label, newer.source, newer.label)
	return false
}

// driverOptions returns the options that make a link use a driver, none if that is the default.
func (g *given) driverOptions(isNew bool) []string {
	if isNew == g.facts.HIP.LinksNew {
		return nil
	}
	return []string{hip.DriverOption(isNew)}
}

// refuseLinkDriver reports a link that uses another driver than its objects despite the option.
func (ck *checks) refuseLinkDriver(t *target, isNew bool) {
	made, links := "the old offload driver", "the new one"
	if isNew {
		made, links = "clang's new offload driver", "the old one"
	}
	ck.errorf(t.Pos, fmt.Sprintf(`Set mode = "whole", or choose one driver for compiles and links (%s).`, driverVariables(ck.facts.HIP.Env)),
		"%s: its objects are made by %s, and its link is by %s, which ignores their device code", t.label, made, links)
}

// learnWrapper returns the commands in a dry run of clang-linker-wrapper.
func (b *builder) learnWrapper(q toolchain.Question, codes []gencode.Code) (*hip.Link, error) {
	return learn(&b.answers, q, func(text string) (*hip.Link, error) { return hip.LearnWrapper(text, codes) })
}

// driverVariables names the environment variables that select a driver, or could.
func driverVariables(env []string) string {
	var names []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if option, _ := hip.ChoosesDriver(strings.Fields(value)); option != "" {
			names = append(names, name+" has "+option)
		}
	}
	if names == nil {
		return "--offload-new-driver in both HIPCC_COMPILE_FLAGS_APPEND and HIPCC_LINK_FLAGS_APPEND, or --no-offload-new-driver"
	}
	return strings.Join(names, ", ")
}

// otherDriver reports whether a link of t ignores the relocatable code of m.
func (g *given) otherDriver(t *target, m Member, l linkage) bool {
	if !t.isHIP() || !m.amd() || g.facts.HIP == nil {
		return m.NewDriver && !(m.wrapperReads() && g.clangLinks()) // nvlink does not read it
	}
	return m.NewDriver != g.linkDriver(t, l)
}

// refuseMember reports device code of a prebuilt library that the link of t would ignore.
func (ds *diagnostics) refuseMember(t, u *target, m Member) {
	made := "--no-offload-new-driver"
	if m.NewDriver {
		made = "--offload-new-driver (section .llvm.offloading)"
	}
	ds.bothf(u.Pos, t.Pos, t.label+" links it", "Have it compiled by the other driver, or in mode whole (-fno-gpu-rdc).",
		"%s:%s was compiled with %s, and the link of %s ignores such device code", u.file, m.Name, made, t.label)
}
