package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/build"
	"github.com/kbuild-dev/kbuild/actions/jobserver"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
)

type buildCmd struct {
	Targets   []string `arg:"" optional:"" help:"Targets, outputs or sources to build (default: group default, or everything)."`
	CheckLink []string `placeholder:"LIST" help:"Link the LTO-IR of modules for these GPUs, for example sm_80,sm_90, and fail if it does not link."`
}

func (cmd buildCmd) Run(c *cli) error {
	c.fromMake(os.Getenv("MAKEFLAGS"))
	if err := cmd.askCheckLink(c); err != nil {
		return err
	}
	q := c.openQuick(cmd.Targets)
	if q != nil {
		if done, err := q.build(c); done {
			return err
		}
	}
	return c.untilRead(func() (string, error) { return cmd.build(c, q) })
}

// enter names the folder, so that editors find the files in messages.
func (c *cli) enter() {
	if c.Dir != "." && !c.Quiet && !c.JSON {
		c.say("kbuild: Entering directory '%s'", c.Dir)
	}
}

// build builds once. misread asks for another time: it is the compiler that was misread.
func (cmd buildCmd) build(c *cli, q *quick) (misread string, err error) {
	start := time.Now()
	s, want, tree, err := c.opened(cmd.Targets)
	if err != nil {
		return "", err
	}
	defer tree.close()
	return s.build(start, tree, want, func() error {
		if q != nil {
			q.save(s, tree, want)
		}
		return nil
	}, nil)
}

// build builds want in an open tree. Where all went well it calls done at the end, and before the last event say, which may be nil.
func (s *session) build(start time.Time, tree *tree, want []graph.ActionID, done, say func() error) (misread string, err error) {
	c := s.cli
	r := c.begin(start, tree, want)
	defer r.end()
	var runner sched.Runner = tree.runner
	if c.DryRun {
		runner = build.NewDryRun(tree.runner)
	}
	if err := s.sweep(tree, want, r.progress); err != nil {
		return "", err
	}
	sum, err := sched.Run(r.ctx, s.graph, want, r.opts, runner, r.observer)
	if err == nil && len(c.KeepCode) > 0 && !c.DryRun {
		err = s.keepCode(r.ctx, tree, want)
	}
	misread, noted := s.noteMisread(tree.runner.Misread())
	err = errors.Join(err, noted)
	good := err == nil && sum.Failed+sum.Skipped == 0 && !sum.Interrupted && misread == ""
	if good && say != nil {
		err = say()
	}
	r.finish(sum)
	if good && err == nil && done != nil {
		err = done()
	}
	if r.ctx.Err() != nil {
		misread = ""
	}
	return misread, errors.Join(err, c.finishTrace(), status(sum))
}

// fromMake takes over what `make -n`, `make -s` and `make -k` mean: a recipe line with + runs under
// make -n as well, and must not build then.
func (c *cli) fromMake(makeflags string) {
	letters := jobserver.Letters(makeflags)
	c.DryRun = c.DryRun || strings.Contains(letters, "n")
	c.Quiet = c.Quiet || strings.Contains(letters, "s")
	if strings.Contains(letters, "k") && c.Keep == nil {
		c.Keep = new(failuresFlag)
	}
}

// tree is an open build tree.
type tree struct {
	lock    *run.Lock
	runner  *build.Runner
	journal *cache.Journal
	files   *cache.Files
	store   *disk.Store
	own     *disk.Store // of the build tree, with --no-cache
	limit   int64       // of either, in bytes
	dry     bool
	cli     *cli
}

// openTree opens the journal and the cache of the build tree that is locked.
func (s *session) openTree(lock *run.Lock) (*tree, error) {
	tools := map[string]string{}
	for name, tool := range s.tools() {
		tools[name] = tool.ID
	}
	state := s.cli.state(s.project, "")
	files := cache.OpenFiles(filepath.Join(state, "files"), s.project.Root)
	t, err := s.cli.openTree(lock, s.project.Root, state, s.graph, tools, files, cache.OpenJournal)
	if err == nil {
		t.runner.Distrusted = s.cli.distrustedQuestions()
	}
	return t, err
}

// openTree opens the build tree with its files in the folder state. The lock goes with the tree, or is released.
func (c *cli) openTree(lock *run.Lock, root, state string, g *graph.Graph, tools map[string]string, files *cache.Files, openJournal func(string) (*cache.Journal, error)) (*tree, error) {
	t := &tree{lock: lock, dry: c.DryRun, files: files, cli: c}
	var err error
	if t.journal, err = openJournal(filepath.Join(state, "journal")); err != nil {
		t.lock.Release()
		return nil, err
	}
	os.RemoveAll(filepath.Join(state, "parts"))
	env := run.Environ(os.Environ(), nil)
	t.runner = &build.Runner{
		Graph: g, Root: root, State: filepath.Clean(state), Files: t.files, Tools: tools,
		Begun: c.begun, Listing: cache.NewListing(root), Journal: t.journal, Env: env, KeyEnv: run.KeyEnviron(env),
	}
	if t.limit, err = cacheLimit(os.Getenv); err == nil && c.NoCache {
		err = t.openParts(state)
	} else if err == nil {
		err = t.openStore(c)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tree) openStore(c *cli) error {
	dir, err := c.cacheDir()
	if err != nil {
		return err
	}
	store, err := disk.Open(dir)
	if err != nil {
		return fmt.Errorf("%w; build without it: --no-cache", err)
	}
	t.store, t.runner.Store, t.runner.Keep = store, store, store
	return nil
}

// openParts gives a build tree without the shared cache a small one of its own, for what stands between the
// passes of nvcc.
func (t *tree) openParts(state string) error {
	store, err := disk.Open(filepath.Join(state, "cache"))
	if err != nil {
		return fmt.Errorf("the build tree cannot be written: %w", err)
	}
	t.own, t.runner.Keep = store, store
	return nil
}

func (c *cli) cacheDir() (string, error) {
	if c.CacheDir != "" {
		return filepath.Abs(c.CacheDir)
	}
	dir, err := disk.Dir(os.Getenv)
	if err != nil {
		return "", exitError{exitUsage, err}
	}
	return dir, nil
}

// close saves what was learned. Trouble here costs the next run time, nothing else.
func (t *tree) close() {
	t.files.Save()
	if !t.dry {
		t.journal.WriteIndex()
	}
	t.journal.Close()
	if t.store != nil && !t.dry {
		t.store.Count(t.runner.Counters())
		t.collect(t.store)
	}
	if t.own != nil && !t.dry {
		t.collect(t.own)
	}
	os.RemoveAll(filepath.Join(t.runner.State, "parts"))
	t.runner.RemoveTemp()
	t.lock.Release()
}

// collect keeps a store below its limit, as far as it can.
func (t *tree) collect(s *disk.Store) {
	if res, err := s.MaybeGC(context.Background(), t.limit); err == nil {
		t.cli.sayOver(res)
	}
}
