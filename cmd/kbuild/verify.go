package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/strace"
	"github.com/kbuild-dev/kbuild/actions/verify"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/graph"
)

type cacheVerifyCmd struct {
	Rebuild bool     `help:"Run every action of the targets again, and compare what it makes with what it made."`
	Strace  bool     `help:"Also spelled --trace: run every command of the targets again under strace, and list the paths that it read or looked for and that are in no record."`
	Targets []string `arg:"" optional:"" help:"Targets of --rebuild or --trace (default: what kbuild would build)."`
}

// brokenEvent reports a damaged cache entry; checkedEvent reports how much was checked.
type (
	brokenEvent struct {
		Event   string `json:"event"`
		Path    string `json:"path"`
		Error   string `json:"error"`
		Removed bool   `json:"removed"`
	}
	checkedEvent struct {
		Event string `json:"event"`
		disk.VerifyResult
	}
)

// Run checks the cache, or reruns commands.
func (cmd cacheVerifyCmd) Run(c *cli) error {
	switch {
	case cmd.Rebuild && cmd.Strace:
		return usagef("cache verify takes --rebuild or --trace, not both")
	case cmd.Rebuild:
		return cmd.rebuild(c)
	case cmd.Strace:
		return cmd.retrace(c)
	case len(cmd.Targets) > 0:
		return usagef("cache verify checks the whole cache; targets are for --rebuild and --trace")
	}
	store, err := c.store()
	if err != nil {
		return err
	}
	res, broken, err := store.Verify(context.Background(), true)
	for _, p := range broken {
		if c.JSON {
			c.out.Event(brokenEvent{"broken", p.Path, p.Err.Error(), p.Repaired})
		} else {
			c.say("kbuild: %s: %v; removed", p.Path, p.Err)
		}
	}
	if err != nil {
		return err
	}
	if c.JSON {
		c.out.Event(checkedEvent{"checked", res})
	} else {
		fmt.Fprintf(c.out, "%s and %s checked, %d broken\n", graph.Count(res.Records, "record"),
			graph.Count(res.Blobs, "blob"), len(broken))
		if res.Others > 0 {
			fmt.Fprintf(c.out, "%s of other versions of kbuild; cache gc removes them when they are not used\n", graph.Count(res.Others, "record"))
		}
	}
	if len(broken) > 0 {
		return exitError{status: exitRequirement}
	}
	return nil
}

// rebuild builds targets, reruns all their actions and compares the outputs byte by byte.
func (cmd cacheVerifyCmd) rebuild(c *cli) error {
	w := c.workspace()
	p, t, want, err := w.Open(cmd.Targets)
	if err != nil {
		return err
	}
	folder := filepath.Join(w.StateDir(), "rebuilt")
	os.RemoveAll(folder)
	again := verify.NewRebuild(t.Runner, folder)
	sum, err := p.Run(t, want, again)
	t.Close()
	checked, differ := again.Differences()
	for _, d := range differ {
		if c.JSON {
			c.out.Event(map[string]any{"event": "difference", "target": d.Action.Target, "name": d.Action.Name, "outputs": d.Outputs, "kept": d.Kept, "read": d.Read})
			continue
		}
		fmt.Fprintf(c.out, "%s %s %s (%s):\n", d.Action.Target, d.Action.Kind, d.Action.Name, d.Action.Pos)
		if len(d.Outputs) > 0 {
			fmt.Fprintf(c.out, "  two runs made different %s\n", strings.Join(d.Outputs, " "))
		}
		for _, k := range d.Kept {
			if rel, err := filepath.Rel(p.Root, k); err == nil {
				k = rel
			}
			fmt.Fprintf(c.out, "  the second is kept as %s\n", k)
		}
		if len(d.Read) > 0 {
			fmt.Fprintf(c.out, "  the second read what the first did not: %s\n", strings.Join(d.Read, " "))
		}
	}
	if !c.JSON {
		fmt.Fprintf(c.out, "%s ran again, %d made something else\n", graph.Count(checked, "action"), len(differ))
	}
	err = c.ended(sum, err)
	if len(differ) > 0 {
		return errors.Join(err, exitError{status: exitRequirement})
	}
	return err
}

// retrace builds targets and reruns all their commands under strace. It compares the files that
// each command read or probed with the command's record.
func (cmd cacheVerifyCmd) retrace(c *cli) error {
	if err := strace.Check(); err != nil {
		return usagef("cache verify --trace runs commands under strace, which %v", err)
	}
	p, t, want, err := c.workspace().Open(cmd.Targets)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	files, queried := p.Covered(ctx)
	interrupted := ctx.Err() != nil
	if stop(); interrupted {
		t.Close()
		return engine.InterruptedError{While: "querying the tools"}
	}
	again := verify.NewTrace(t.Runner, files, queried)
	sum, err := p.Run(t, want, again)
	t.Close()
	checked, found := again.Unrecorded()
	for i, u := range found {
		a := u.Action
		if c.JSON {
			c.out.Event(map[string]any{"event": "unrecorded", "target": a.Target, "kind": a.Kind, "name": a.Name, "path": u.Path, "how": u.How})
			continue
		}
		if i == 0 || found[i-1].Action != a {
			fmt.Fprintf(c.out, "%s %s %s (%s):\n", a.Target, a.Kind, a.Name, a.Pos)
		}
		fmt.Fprintf(c.out, "  %s %s\n", u.How, u.Path)
	}
	if !c.JSON {
		fmt.Fprintf(c.out, "%s ran again, %s in no record\n", graph.Count(checked, "command"), graph.Count(len(found), "path"))
	}
	err = c.ended(sum, err)
	if len(found) > 0 {
		return errors.Join(err, exitError{status: exitFailed})
	}
	return err
}
