package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler/hip"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Objects of clang's new offload driver are for links of the new driver, and the old ones for old links (hip.ErrNewDriver). A
// link passes over the device code of the others, says nothing and makes a program without it. Where compiles and links are of
// different drivers, kbuild refuses; where both are of the new one it runs hipcc as one command.

// checkDriver refuses relocatable code of a source that its link would pass over. learned is how asking for the steps of its compile
// ended.
func (ck *checks) checkDriver(t *target, s manifest.Source, learned error) {
	k := ck.facts.HIP
	option, isNew := hip.ChoosesDriver(s.Flags.HIP)
	if option == "" {
		isNew = k.CompilesNew
	}
	if learned == nil || errors.Is(learned, hip.ErrNewDriver) { // what hipcc says is more than what its options say
		isNew = learned != nil
	}
	if s.Mode == "whole" || isNew == k.LinksNew {
		return
	}
	made, links := "the old offload driver", "the new one"
	if isNew {
		made, links = "clang's new offload driver", "the old one"
	}
	pos, fix := t.modePos(s), fmt.Sprintf(`Set mode = "whole", or choose one driver for compiles and links (%s).`, driverVariables(k.Env))
	if option != "" {
		pos, fix = t.attr("flags"), "Remove "+option+" from flags.hip: flags.hip is for compiles, and links do not get it."
	}
	ck.errorf(pos, fix, "%s: objects of mode %s are made by %s, and links are by %s, which ignores their device code", t.label, s.Mode, made, links)
}

// driverVariables names the variables that choose a driver behind the manifest's back.
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

// otherDriver reports relocatable code of a member that a link of t passes over.
func (g *given) otherDriver(t *target, m Member) bool {
	if !t.isHIP() || !m.amd() || g.facts.HIP == nil {
		return m.NewDriver && !(m.wrapperReads() && g.clangLinks()) // nvlink reads none of it
	}
	return m.NewDriver != g.facts.HIP.LinksNew
}

// refuseMember reports device code of a prebuilt library that no link of kbuild takes.
func (ds *diagnostics) refuseMember(t, u *target, m Member) {
	made := "--no-offload-new-driver"
	if m.NewDriver {
		made = "--offload-new-driver (section .llvm.offloading)"
	}
	ds.bothf(u.Pos, t.Pos, t.label+" links it", "Have it compiled by the other driver, or in mode whole (-fno-gpu-rdc).",
		"%s:%s was compiled with %s, and the link of %s ignores such device code", u.file, m.Name, made, t.label)
}
