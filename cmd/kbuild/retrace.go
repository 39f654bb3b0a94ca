package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/actions/build"
	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/actions/strace"
)

// bareTrace spells the --trace of `kbuild cache verify --trace` as the parser has it: elsewhere --trace is followed by a file. There
// --trace=FILE still means that.
func bareTrace(args []string, flags []*kong.Flag) []string {
	for i := range args[:max(0, len(args)-1)] {
		if args[i] != "cache" || args[i+1] != "verify" || i > 0 && hasValue(args[i-1], flags) {
			continue
		}
		out := slices.Clone(args)
		for j := i + 2; j < len(out) && out[j] != "--"; j++ {
			if out[j] == "--trace" {
				out[j] = "--strace"
			}
		}
		return out
	}
	return args
}

// hasValue reports an option whose value is the next argument.
func hasValue(arg string, flags []*kong.Flag) bool {
	return slices.ContainsFunc(flags, func(f *kong.Flag) bool {
		return !f.IsBool() && (arg == "--"+f.Name || f.Short != 0 && arg == "-"+string(f.Short))
	})
}

// retrace builds targets, runs every command of them again under strace, and holds what it read and looked for against the records.
func (cmd cacheVerifyCmd) retrace(c *cli) error {
	if err := straceWorks(); err != nil {
		return err
	}
	var again *build.Trace
	var folder string
	_, err := c.runAgain(cmd.Targets, func(ctx context.Context, s *session, t *tree) (sched.Runner, error) {
		folder = c.state(s.project, "traced")
		if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o777)); err != nil {
			return nil, err
		}
		again = build.NewTrace(t.runner, s.covered(ctx), folder)
		return again, nil
	})
	if again == nil {
		return err
	}
	os.RemoveAll(folder)
	checked, found := again.Found()
	return errors.Join(err, c.showUnrecorded(checked, found))
}

// straceWorks reports what is missing to run commands under strace.
func straceWorks() error {
	if _, err := exec.LookPath("strace"); err != nil {
		return usagef("cache verify --trace runs commands under strace, which is not in PATH: install it (on Debian and Ubuntu: apt install strace)")
	}
	argv := strace.Args(os.DevNull, []string{"true"})
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return usagef("cache verify --trace runs commands under strace, which does not work here (%v): %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// covered is what the tools of the plan stand for.
func (s *session) covered(ctx context.Context) build.Covered {
	files, asked := probe.Covered(ctx, s.request())
	c := build.Covered{Files: map[string][]string{}, Asked: asked}
	for name, tool := range s.tools() {
		c.Files[name] = files[tool.ID]
	}
	return c
}

func (c *cli) showUnrecorded(checked int, found []build.Unrecorded) error {
	if c.JSON {
		enc := json.NewEncoder(c.out)
		for _, u := range found {
			enc.Encode(map[string]any{"event": "unrecorded", "target": u.Action.Target, "kind": u.Action.Kind, "name": u.Action.Name, "path": u.Path, "how": u.How})
		}
	} else {
		for i, u := range found {
			if a := u.Action; i == 0 || found[i-1].Action != a {
				fmt.Fprintf(c.out, "%s %s %s (%s):\n", a.Target, a.Kind, a.Name, a.Pos)
			}
			fmt.Fprintf(c.out, "  %s %s\n", u.How, u.Path)
		}
		fmt.Fprintf(c.out, "%d commands ran again, %d paths are in no record\n", checked, len(found))
	}
	if len(found) > 0 {
		return exitError{status: exitFailed}
	}
	return nil
}
