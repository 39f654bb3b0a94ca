package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/build"
	"github.com/kbuild-dev/kbuild/actions/sched"
)

// rebuild builds targets, runs every action of them again, and compares the bytes.
func (cmd cacheVerifyCmd) rebuild(c *cli) error {
	var again *build.Rebuild
	root, err := c.runAgain(cmd.Targets, func(_ context.Context, s *session, t *tree) (sched.Runner, error) {
		folder := c.state(s.project, "rebuilt")
		os.RemoveAll(folder)
		again = build.NewRebuild(t.runner, folder)
		return again, nil
	})
	if again == nil {
		return err
	}
	checked, differ := again.Checked()
	return errors.Join(err, c.showDifferences(root, checked, differ))
}

// runAgain builds targets with a runner that runs commands again.
func (c *cli) runAgain(targets []string, with func(context.Context, *session, *tree) (sched.Runner, error)) (root string, err error) {
	start := time.Now()
	s, want, t, err := c.opened(targets)
	if err != nil {
		return "", err
	}
	defer t.close()
	r := c.begin(start, t, want)
	defer r.end()
	if err := s.sweep(t, want, r.progress); err != nil {
		return "", err
	}
	runner, err := with(r.ctx, s, t)
	if err != nil {
		return "", err
	}
	sum, err := sched.Run(r.ctx, s.graph, want, r.opts, runner, r.observer)
	r.finish(sum)
	return s.project.Root, errors.Join(err, c.finishTrace(), status(sum))
}

func (c *cli) showDifferences(root string, checked int, differ []build.Difference) error {
	if c.JSON {
		enc := json.NewEncoder(c.out)
		for _, d := range differ {
			enc.Encode(map[string]any{"event": "difference", "target": d.Action.Target, "name": d.Action.Name, "outputs": d.Outputs, "kept": d.Kept, "read": d.Read})
		}
	} else {
		for _, d := range differ {
			fmt.Fprintf(c.out, "%s %s %s (%s):\n", d.Action.Target, d.Action.Kind, d.Action.Name, d.Action.Pos)
			if len(d.Outputs) > 0 {
				fmt.Fprintf(c.out, "  two runs made different %s\n", strings.Join(d.Outputs, " "))
			}
			for _, k := range d.Kept {
				if rel, err := filepath.Rel(root, k); err == nil {
					k = rel
				}
				fmt.Fprintf(c.out, "  the second is kept as %s\n", k)
			}
			if len(d.Read) > 0 {
				fmt.Fprintf(c.out, "  the second read what the first did not: %s\n", strings.Join(d.Read, " "))
			}
		}
		fmt.Fprintf(c.out, "%d actions ran again, %d made something else\n", checked, len(differ))
	}
	if len(differ) > 0 {
		return exitError{status: exitRequirement}
	}
	return nil
}
