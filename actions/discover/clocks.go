package discover

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
)

// An output that contains the time is valid only in its build tree and is not shared: no key
// contains the time. SOURCE_DATE_EPOCH, which every key contains, fixes __DATE__ and __TIME__ for
// g++. It does not fix __TIMESTAMP__, the time of the source file (g++ 12). clang before 16 ignores
// the variable (clang 15).

// clocks are the macros of a text that expand to a time.
type clocks struct {
	now  bool // __DATE__, __TIME__
	file bool // __TIMESTAMP__
}

var (
	tellsNow  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`__(?:DATE|TIME)__`) })
	tellsFile = []byte("__TIMESTAMP__")
)

// clocksIn returns the clocks that a text uses.
func clocksIn(text []byte) (c clocks) {
	if !bytes.Contains(text, []byte("__DATE__")) && !bytes.Contains(text, []byte("__TIME")) {
		return c
	}
	return clocks{now: tellsNow().Match(text), file: bytes.Contains(text, tellsFile)}
}

// differs reports whether the clocks expand to another time in another build tree.
func (d *Discovery) differs(a *graph.Action, c clocks) bool {
	return c.file || c.now && !d.epoch(a)
}

// epoch reports whether SOURCE_DATE_EPOCH replaces the time in the outputs of a.
func (d *Discovery) epoch(a *graph.Action) bool {
	return !clang.Runs(a) && slices.ContainsFunc(d.KeyEnv, func(e string) bool { return strings.HasPrefix(e, "SOURCE_DATE_EPOCH=") })
}

// TellsTime reports whether a writes the time into an output, by the project's own text or by the
// command.
func (d *Discovery) TellsTime(a *graph.Action, found []cache.FileDigest) bool {
	if a.Depfile == "" || a.Kind.Info().Generates {
		return false
	}
	return d.CommandTellsTime(a) || slices.ContainsFunc(ownFiles(a, found), func(f string) bool { return d.differs(a, d.sources.scan(f).clocks) })
}

// CommandTellsTime reports whether the command defines a macro as the time, in an argument or by an
// environment variable. The source then does not name the clock.
func (d *Discovery) CommandTellsTime(a *graph.Action) bool {
	if a.Depfile == "" || a.Kind.Info().Generates {
		return false
	}
	tells := func(text string) bool { return strings.Contains(text, "__") && d.differs(a, clocksIn([]byte(text))) }
	return slices.ContainsFunc(a.Argv, tells) || slices.ContainsFunc(a.Driver().Argv, tells) || slices.ContainsFunc(d.KeyEnv, tells)
}
