// Package engine builds. It locks a build tree and compares the tree with what the last build
// stored. It plans again if the plan may have changed, runs what is not up to date, and stores what
// the next build needs.
//
// It knows no flags and prints nothing: a UI does that. There may be others than the command line.
package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Options are the settings of a command line. The zero values are the defaults.
type Options struct {
	Env            run.Environment  // of the user
	Manifest       manifest.Options // which manifest, with which variables, and where it builds
	CacheDir       string           // folder of the action cache; "" means that of the user
	CacheSize      int64            // how large the cache may grow, in bytes
	CacheSizeError error            // why that is not known; returned when a tree is opened
	NoCache        bool             // neither reads nor writes the action cache
	Remote         *string          // address of a remote cache, "" for none; nil: the manifest decides
	RemoteHosts    []string         // servers that may receive credentials, HOST:PORT
	ReadOnly       bool             // sends nothing to a remote cache
	// how long a build waits for a remote cache that does not answer; 0 is the default
	Patience     time.Duration
	RemoteExec   bool            // commands may run remotely
	RemoteJobs   int             // limit of concurrent remote commands
	Platform     [][2]string     // platform properties of remote workers, in the server's words
	NoSplit      bool            // runs nvcc unsplit
	RequireSplit bool            // refuses to run nvcc unsplit if the user does not ask for it
	NoWait       bool            // fails if another kbuild has the build tree
	DryRun       bool            // runs nothing
	Exports      bool            // describes what others need to use the targets
	CheckLink    *plan.CheckLink // links the LTO-IR of modules
	Begun        time.Time       // when this kbuild started
}

// Workspace is a project with the settings of a command line.
type Workspace struct {
	Options
	UI UI
}

// New returns a Workspace.
func New(o Options, ui UI) *Workspace { return &Workspace{o, ui} }

// checkEnv returns an error if a variable names a file with options of nvcc or of a program that it
// runs: keys would not have the content of the file.
func (w *Workspace) checkEnv() error {
	for _, name := range run.Names(run.NVCCOptions | run.PassOptions) {
		for _, word := range strings.Fields(w.Env.Get(name)) {
			for _, part := range []string{"=@", ",@", "options-file", "-optf", "specs"} {
				if strings.HasPrefix(word, "@") || strings.Contains(word, part) {
					return usagef("%s names a file of options: write the options themselves", name)
				}
			}
		}
	}
	return nil
}

// UI requests a build and shows it.
type UI interface {
	// Enter is called before anything of a build is shown.
	Enter()
	// Diagnose shows what is wrong with a manifest or a plan. Some of it may have been shown
	// before.
	Diagnose(manifest.Diagnostics)
	// Say shows a line: a warning, or what the build waits for.
	Say(text string)
	// Note shows a line that matters less.
	Note(text string)
	// Waiting shows a user at a terminal what takes so long.
	Waiting(text string)
	// Begin prepares a run over actions and all that they need, in an open build tree.
	Begin(t *Tree, want []graph.ActionID) *Run
	// UpToDate shows that all of so many actions are up to date.
	UpToDate(actions int)
}

// Run configures one run of the scheduler, and shows it.
type Run struct {
	Context context.Context // canceled if the user interrupts
	Options sched.Options   // limits; the engine adds what it knows about actions
	Display
}

// Display shows a run.
type Display interface {
	sched.Observer
	Diagnose(d manifest.Diagnostic) // shows what the run finds, above the progress
	Finish(sum sched.Summary)       // shows the summary
	Close()                         // frees what UI.Begin allocated
}

// UsageError is a mistake of the user: an invalid manifest, folder or name.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrDiagnosed ends a build whose manifest or plan has errors, which the UI has shown.
var ErrDiagnosed = errors.New("the manifest has errors")

// InterruptedError ends what the user interrupted.
type InterruptedError struct{ While string }

func (e InterruptedError) Error() string { return "interrupted while " + e.While }

// keyEnv returns the part of the environment of commands that is in keys.
func (w *Workspace) keyEnv() []string { return run.Select(run.Environ(w.Env, nil), run.Keyed) }

// ActionCache returns the folder of the action cache.
func (w *Workspace) ActionCache() (string, error) {
	if w.CacheDir != "" {
		return filepath.Abs(w.CacheDir)
	}
	dir, err := disk.Dir(w.Env.Get)
	if err != nil {
		return "", UsageError{err}
	}
	return dir, nil
}

// StateDir returns the folder of the build tree for files that are not outputs.
func (w *Workspace) StateDir() string {
	root, dir := manifest.Locate(w.Manifest)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	return filepath.Join(dir, ".kbuild")
}
