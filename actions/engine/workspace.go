// Package engine builds. It locks a build tree, finds out from what it left there the last time
// what has changed since, plans again if the plan may be another, runs what is not up to date, and
// leaves what the next build needs to know.
//
// It knows no flags and prints nothing: a Front does, of which there may be others than the command
// line.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Workspace is a project with the choices of a command line. The zero values are the defaults.
type Workspace struct {
	Manifest     manifest.Options      // which manifest, with which variables, and where it builds
	CacheDir     string                // the action cache; "" is that of the user
	CacheSize    func() (int64, error) // how large the cache may grow, in bytes; it is asked when a tree is opened
	NoCache      bool                  // neither reads nor writes the action cache
	Remote       *string               // address of a cache on another machine, "" is none; nil: the manifest says
	RemoteHosts  []string              // servers that may learn who asks, HOST:PORT, see remoteCache
	ReadOnly     bool                  // nothing is sent to a remote cache
	Patience     time.Duration         // for how long a build may wait for a remote cache in vain; 0 is the default
	RemoteExec   bool                  // commands may run there
	RemoteJobs   int                   // so many at once
	Platform     [][2]string           // properties of the machines that they run on, in the server's words
	NoSplit      bool                  // runs nvcc as one command
	RequireSplit bool                  // refuses to run nvcc as one command where nobody asks for it
	NoWait       bool                  // fails if another kbuild has the build tree
	DryRun       bool                  // runs nothing
	Exports      bool                  // says of the targets what others need to use them
	CheckLink    *plan.CheckLink       // links the LTO-IR of modules
	Begun        time.Time             // when this kbuild started
	Front        Front

	diagnosed  manifest.Diagnostics // by the last plan
	chosen     chosenFiles          // see settle
	distrusted map[string]string    // questions to compilers that are known to be misparsed, and how that was found out
}

// Front is who asks for a build, and shows it.
type Front interface {
	// Enter comes first of all that a build shows.
	Enter()
	// Diagnose shows what is wrong with a manifest or a plan. Some of it may have been shown
	// before.
	Diagnose(manifest.Diagnostics)
	// Say shows a line: a warning, or what is waited for.
	Say(text string)
	// Note shows a line that matters less.
	Note(text string)
	// Waiting shows somebody who looks on what takes so long.
	Waiting(text string)
	// Begin makes ready for a run over actions and all that they need, in an open build tree.
	Begin(t *Tree, want []graph.ActionID) *Run
	// UpToDate says that all of so many actions are.
	UpToDate(actions int)
}

// Run is what a front has a run of the scheduler done with.
type Run struct {
	Context  context.Context // until somebody interrupts
	Options  sched.Options   // how many at once; what is known of actions the engine adds
	Observer sched.Observer
	Diagnose func(manifest.Diagnostic) // shows what the run finds, above the progress
	Finish   func(sched.Summary)       // tells the end
	End      func()                    // frees what Begin took
}

// UsageError is a mistake of who asked: a manifest, a folder or a name that cannot be.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrDiagnosed ends a build whose manifest or plan has errors, which the front has shown.
var ErrDiagnosed = errors.New("the manifest has errors")

// InterruptedError ends what somebody interrupted.
type InterruptedError struct{ While string }

func (e InterruptedError) Error() string { return "interrupted while " + e.While }

func (w *Workspace) sayf(format string, args ...any) { w.Front.Say(fmt.Sprintf(format, args...)) }

// environ is the environment of commands, and what of it is in keys.
func environ() (all, key []string) {
	all = run.Environ(os.Environ(), nil)
	return all, run.KeyEnviron(all)
}

// ActionCache is where the action cache is.
func (w *Workspace) ActionCache() (string, error) {
	if w.CacheDir != "" {
		return filepath.Abs(w.CacheDir)
	}
	dir, err := disk.Dir(os.Getenv)
	if err != nil {
		return "", UsageError{err}
	}
	return dir, nil
}

// StateDir is where the build tree has what is no output.
func (w *Workspace) StateDir() string {
	root, dir := manifest.Locate(w.Manifest)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	return filepath.Join(dir, ".kbuild")
}
