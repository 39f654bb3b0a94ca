// Package advice explains messages of compilers and linkers that have one likely cause, in the
// terms of the manifest. It reports which target defines a missing symbol, or which folder has a
// missing header. It reads the outputs of the build, and refuses to guess: without evidence it adds
// nothing to the message.
package advice

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
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

// most limits the number of pieces of advice.
const most = 4

// Help returns sentences, the most useful first, or none without evidence.
func (f *Failure) Help() (help []string) {
	for _, r := range rules() {
		found := r.re.FindAllStringSubmatch(f.Said, 1000)
		if found == nil {
			continue
		}
		for _, h := range r.say(f, found) {
			if !slices.Contains(help, h) && len(help) < most {
				help = append(help, h)
			}
		}
	}
	return help
}

// rule is a message and the advice for all its matches.
type rule struct {
	re  *regexp.Regexp
	say func(f *Failure, found [][]string) []string
}

// rules are sorted by usefulness: for a failed link, advice on missing symbols precedes advice on
// duplicate ones.
var rules = sync.OnceValue(func() []rule {
	of := func(re string, say func(f *Failure, found [][]string) []string) rule {
		return rule{regexp.MustCompile(`(?m)` + re), say}
	}
	return []rule{
		of(`Undefined reference to '([^']+)'(?: in '([^']+)')?`, (*Failure).undefinedInDevice),
		of(`Unresolved extern (?:function|variable) '([^']+)'`, (*Failure).otherFile),
		of(`lld: error: undefined (?:\w+ )?symbol: (.+)`, (*Failure).otherFile),
		of("undefined reference to [`']([^']+)'", (*Failure).undefinedInHost),
		of(`Multiple definition of '([^']+)' in '([^']+)', first defined in '([^']+)'`, (*Failure).twice),
		of(`Linking globals named '([^']+)': symbol multiply defined`, (*Failure).twiceInLTO),
		of("multiple definition of [`']([^']+)'", (*Failure).twiceInHost),
		of(`(?:fatal )?error: '?([^\s':]+)'?:? (?:No such file or directory|file not found)`, (*Failure).header),
		of(`could not open source file "([^"]+)"`, (*Failure).header),
		of(`cannot find -l(\S+?)(?::|$|\s)`, (*Failure).library),
		of(`<<<`, (*Failure).launch),
		of(`Entry function '([^']+)' uses too much shared data \(0x([0-9a-f]+) bytes(?: \+ 0x[0-9a-f]+ bytes system)?, 0x([0-9a-f]+) max\)`, (*Failure).sharedMemory),
		of(`(?:Feature|Instruction|Modifier) '([^']+)' requires .target (sm_\d+)\w* or higher`, (*Failure).newerArch),
		of(`identifier "(__\w+)" is undefined`, (*Failure).intrinsic),
		of(`no instance of overloaded function "atomicAdd" matches[^\n]*\n[^\n]*argument types are: \(double \*`, (*Failure).atomicDouble),
		of(`unsupported (GNU|clang) version`, (*Failure).hostCompiler),
		of(`annotation on lambda requires --extended-lambda`, (*Failure).extendedLambda),
		of(`The closure type for a lambda .* '-+(?:expt-)?extended-lambda' is specified`, (*Failure).plainLambda),
		of(`calling a constexpr __host__ function\("([^"]+)"\).*--expt-relaxed-constexpr`, (*Failure).relaxedConstexpr),
		of(`kernel launch from __device__ or __global__ functions requires separate compilation`, (*Failure).nestedLaunch),
		of(`Value '([^']+)' is not defined for option 'std'`, (*Failure).standard),
		of(`nvcc fatal\s*: Unknown option '([^']+)'`, (*Failure).unknownOption),
	}
})

// readable returns a symbol as in its source.
func readable(symbol string) string { return modules.Demangled(symbol) }

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
	byLabel := map[string]*graph.Target{}
	for _, t := range f.Targets {
		byLabel[t.Label] = t
	}
	own, attribute := f.linksItself(on)
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

// linksItself returns the setting that makes a library link its device code itself, and the name of
// its attribute. It returns them only if the failed link is one of device code.
func (f *Failure) linksItself(target string) (setting, attribute string) {
	if f.Action.Work.Link == nil {
		return "", ""
	}
	links := false
	for a := range f.Actions {
		switch {
		case a.Target != target:
		case a.Kind.Info().Lane == graph.LaneArchive:
			setting, attribute = "device_link = true", "device_link"
		case a.Kind.Info().Lane == graph.LaneLink && strings.HasPrefix(target, "library."):
			setting, attribute = `type = "shared"`, "type"
		case a.Work.Link != nil:
			links = true
		}
	}
	if !links {
		return "", ""
	}
	return setting, attribute
}

func (f *Failure) abs(file string) string { return cache.Absolute(f.Root, file) }

// at returns a target with its position in the manifest.
func at(label string, pos graph.Pos) string {
	if pos.String() == "" {
		return label
	}
	return label + " (" + pos.String() + ")"
}

// unique returns the texts of a group, each once.
func unique(found [][]string, group int) (out []string) {
	for _, m := range found {
		if !slices.Contains(out, m[group]) {
			out = append(out, m[group])
		}
	}
	return out
}
