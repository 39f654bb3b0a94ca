package discover

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// An output with the time in it belongs to its build tree and is not shared: the time is in no key.
// SOURCE_DATE_EPOCH, which is in each, fixes __DATE__ and __TIME__ for g++; __TIMESTAMP__, the time
// of the source file, stays what it is (g++ 12), and clang before 16 knows nothing of the variable
// (clang 15).

// clocks are the macros that tell a time.
type clocks struct {
	now  bool // __DATE__, __TIME__
	file bool // __TIMESTAMP__
}

var (
	tellsNow  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__(?:DATE|TIME)__`) })
	tellsFile = []byte("__TIMESTAMP__")
)

// clocksIn are the clocks that a text reads.
func clocksIn(text []byte) (c clocks) {
	if !bytes.Contains(text, []byte("__DATE__")) && !bytes.Contains(text, []byte("__TIME")) {
		return c
	}
	return clocks{now: tellsNow().Match(text), file: bytes.Contains(text, tellsFile)}
}

// differs reports whether the clocks say another time to a in another build tree.
func (d *Discovery) differs(a *graph.Action, c clocks) bool {
	return c.file || c.now && !d.epoch(a)
}

// epoch reports that SOURCE_DATE_EPOCH stands for the time in what a makes.
func (d *Discovery) epoch(a *graph.Action) bool {
	isClang := func(arg string) bool { return strings.Contains(path.Base(arg), "clang") }
	if slices.Contains(a.Tools, "hip") || slices.Contains(a.Tools, "clang") || slices.ContainsFunc(a.Argv, isClang) {
		return false
	}
	return slices.ContainsFunc(d.KeyEnv, func(e string) bool { return strings.HasPrefix(e, "SOURCE_DATE_EPOCH=") })
}

// TellsTime reports that a puts the time into an output: the project's own text does, or the
// command.
func (d *Discovery) TellsTime(a *graph.Action, found []cache.FileDigest) bool {
	if a.Depfile == "" || a.Kind == graph.Generate {
		return false
	}
	return d.CommandTellsTime(a) || slices.ContainsFunc(ownFiles(a, found), func(f string) bool { return d.differs(a, d.sources.scan(f).clocks) })
}

// CommandTellsTime reports a macro that the command defines as the time, in an argument or by a
// variable of the environment: the source then does not name the clock.
func (d *Discovery) CommandTellsTime(a *graph.Action) bool {
	if a.Depfile == "" || a.Kind == graph.Generate {
		return false
	}
	tells := func(text string) bool { return strings.Contains(text, "__") && d.differs(a, clocksIn([]byte(text))) }
	return slices.ContainsFunc(a.Argv, tells) || slices.ContainsFunc(a.Driver().Argv, tells) || slices.ContainsFunc(d.KeyEnv, tells)
}
