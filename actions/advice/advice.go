// Package advice says what to do about a failed command in the terms of the manifest. Toolchains
// know what the messages report (vendors.Explain); this package finds the target that defines a
// missing symbol, or the folder that has a missing header. It reads the outputs of the build, and
// refuses to guess: without evidence it adds nothing to the message.
package advice

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Failure describes a failed command and its build.
type Failure struct {
	Action  *graph.Action
	Said    string                  // output of the command
	Root    string                  // of the project
	State   string                  // the build tree, relative to Root
	Actions iter.Seq[*graph.Action] // all actions of the graph
	// Targets are those of the plan; none if only a part of its actions was loaded.
	Targets []*graph.Target
	Maker   func(string) *graph.Action // the action that writes a file; nil if none does
}

// maxAdvice limits the number of pieces of advice.
const maxAdvice = 4

// Help returns sentences, the most useful first, or none without evidence.
func (f *Failure) Help() (help []string) {
	add := func(advice ...string) {
		for _, h := range advice {
			if !slices.Contains(help, h) && len(help) < maxAdvice {
				help = append(help, h)
			}
		}
	}
	faults := vendors.Explain(f.Action, f.Said)
	resolved := map[toolchain.FaultKind]bool{}
	for _, fault := range faults {
		switch {
		case fault.Kind == toolchain.Advised:
			var names []string
			for _, n := range fault.Names {
				names = append(names, modules.Demangled(n))
			}
			add(strings.NewReplacer("{names}", list(names), "{are}", are(names)).Replace(fault.Advice))
		case fault.Kind == toolchain.Twice:
			add(f.twice(fault)...)
		case resolved[fault.Kind]:
		case fault.Kind == toolchain.Undefined:
			add(f.undefined(faults)...)
		case fault.Kind == toolchain.NoHeader:
			add(f.headers(names(faults, fault.Kind))...)
		case fault.Kind == toolchain.NoLibrary:
			add(f.libraries(names(faults, fault.Kind))...)
		}
		resolved[fault.Kind] = true
	}
	return help
}

// names returns the names in the faults of a kind, each once.
func names(faults []toolchain.Fault, kind toolchain.FaultKind) (all []string) {
	for _, f := range faults {
		if f.Kind == kind && !slices.Contains(all, f.Names[0]) {
			all = append(all, f.Names[0])
		}
	}
	return all
}

// list joins names: "a, b and c". It shortens long lists.
func list(names []string) string {
	const few = 5
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// are returns the verb for a number of names.
func are(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// depend returns the advice to add a target to the deps of the failed one. All advice about deps is
// generated here, where it is compared with the manifest: existing deps are not advised.
func (f *Failure) depend(on string) string {
	if kind, _, _ := strings.Cut(on, "."); kind == "executable" || kind == "module" {
		return "only libraries are linked: move it into one that is in the deps of both"
	}
	byLabel := map[string]*graph.Target{}
	for _, t := range f.Targets {
		byLabel[t.Label] = t
	}
	// The setting that makes a library link its device code itself, if the failed link is one of
	// device code, and the name of its attribute.
	own, attribute, links := "", "", false
	for a := range f.Actions {
		switch product := a.Kind.Info().Makes; {
		case a.Target != on || f.Action.Work.Link == nil:
		case product == graph.StaticLibrary:
			own, attribute = "device_link = true", "device_link"
		case product == graph.SharedLibrary:
			own, attribute = `type = "shared"`, "type"
		case a.Work.Link != nil:
			links = true
		}
	}
	if !links {
		own = ""
	}
	seen := map[string]bool{}
	for todo := []string{f.Action.Target}; len(todo) > 0; todo = todo[1:] {
		t := byLabel[todo[0]]
		switch {
		case t == nil && todo[0] == f.Action.Target:
			return "is " + on + " in the deps of " + f.Action.Target + "?"
		case todo[0] == on && own != "":
			return on + " is in the deps of " + f.Action.Target + ", and " + own + " keeps its device code to itself: drop " + attribute
		case todo[0] == on:
			return on + " is in the deps of " + f.Action.Target + " already"
		case t == nil || seen[todo[0]]:
			continue
		}
		seen[todo[0]] = true
		todo = append(todo, t.Deps...)
	}
	if own != "" {
		return own + " of " + on + " keeps its device code to itself: drop " + attribute + ", and add " + on + " to the deps of " + f.Action.Target
	}
	return "add " + on + " to the deps of " + f.Action.Target
}

func (f *Failure) abs(file string) string { return cache.Absolute(f.Root, file) }

// at returns a target with its position in the manifest.
func at(label string, pos graph.Pos) string {
	if pos.String() == "" {
		return label
	}
	return label + " (" + pos.String() + ")"
}
