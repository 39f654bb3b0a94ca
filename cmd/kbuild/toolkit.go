package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/actions/toolkit"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

type toolkitCmd struct {
	Lock    toolkitLockCmd    `cmd:"" help:"Write kernels.lock: the wheels of the toolkit that the manifest pins, with their digests."`
	Install toolkitInstallCmd `cmd:"" help:"Install the toolkit of kernels.lock, with pip, and show its folder."`
	Path    toolkitPathCmd    `cmd:"" help:"Show the folder of the toolkit of kernels.lock."`
	List    toolkitListCmd    `cmd:"" json:"" help:"Show the toolkits that kbuild has installed."`
	Remove  toolkitRemoveCmd  `cmd:"" help:"Remove toolkits that kbuild has installed."`
}

type toolkitLockCmd struct {
	FindLinks string `placeholder:"FOLDER" help:"Look at the wheels in FOLDER, and at no index."`
}

func (cmd toolkitLockCmd) Run(c *cli) error { return runPinned(c, cmd.FindLinks, cmd) }

func (toolkitLockCmd) apply(ctx context.Context, pin *toolkit.Pin) (string, error) {
	return "", pin.Lock(ctx)
}

type toolkitInstallCmd struct {
	FindLinks string `placeholder:"FOLDER" help:"Take the wheels from FOLDER, and from no index."`
}

func (cmd toolkitInstallCmd) Run(c *cli) error { return runPinned(c, cmd.FindLinks, cmd) }

func (toolkitInstallCmd) apply(ctx context.Context, pin *toolkit.Pin) (string, error) {
	return pin.Install(ctx)
}

type toolkitPathCmd struct{}

func (cmd toolkitPathCmd) Run(c *cli) error { return runPinned(c, "", cmd) }

func (toolkitPathCmd) apply(_ context.Context, pin *toolkit.Pin) (string, error) {
	return pin.Root()
}

// pinnedCommand is a command that needs the toolkit that the manifest pins.
type pinnedCommand interface {
	apply(context.Context, *toolkit.Pin) (root string, err error)
}

// runPinned runs a command and prints the root that it returns. A signal cancels the context.
func runPinned(c *cli, links string, cmd pinnedCommand) error {
	w := c.workspace()
	p, err := w.Load()
	if err != nil {
		return err
	}
	pin, err := w.Pin(p)
	if err != nil {
		return err
	}
	if links != "" {
		if info, err := os.Stat(links); err != nil || !info.IsDir() {
			return usagef("--find-links %s: there is no such folder", links)
		}
		pin.Links, _ = filepath.Abs(links) // pip runs in its own working directory
	}
	if f, ok := c.err.(*os.File); ok && term.IsTerminal(f) {
		pin.Terminal = f
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	root, err := cmd.apply(ctx, pin)
	switch {
	case err == nil && root != "":
		fmt.Fprintln(c.out.Paths(), root)
	case ctx.Err() != nil:
		return engine.InterruptedError{While: "running pip"}
	case errors.As(err, new(toolkit.NotReady)):
		return exitError{exitRequirement, err}
	}
	return err
}

type toolkitListCmd struct{}

func (toolkitListCmd) Run(c *cli) error {
	pin, err := c.workspace().Toolkits()
	if err != nil {
		return err
	}
	list, err := pin.List()
	for _, t := range list {
		c.out.Paths()
		c.print(map[string]string{"event": "toolkit", "name": t.Name, "requirement": t.Requirement,
			"root": t.Root}, "%s  %s  %s\n", t.Name, t.Requirement, t.Root)
	}
	return err
}

type toolkitRemoveCmd struct {
	Names []string `arg:"" help:"What kbuild toolkit list calls them; the beginning is enough."`
}

func (cmd toolkitRemoveCmd) Run(c *cli) error {
	pin, err := c.workspace().Toolkits()
	for _, name := range cmd.Names {
		if err == nil {
			err = pin.Remove(context.Background(), name)
		}
	}
	return err
}
