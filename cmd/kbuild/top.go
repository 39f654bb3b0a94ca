package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

type topCmd struct{}

func (topCmd) Run(c *cli) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if c.JSON {
		return topJSON(c)
	}
	screen := term.OpenScreen(os.Stdin, c.out.To)
	if screen == nil {
		text, err := topTable()
		fmt.Fprint(c.out, text)
		return err
	}
	defer screen.Close()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for more := true; more; more = nextTick(ctx, screen.Keys, ticker.C) {
		text, err := topTable()
		if err != nil {
			return err
		}
		screen.Show(term.Visible(text))
	}
	return nil
}

// nextTick waits for a tick. It returns false if the user types q or ctx ends.
func nextTick(ctx context.Context, keys <-chan byte, ticks <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case key, ok := <-keys:
			if key == 'q' {
				return false
			}
			if !ok {
				keys = nil // end of standard input
			}
		case <-ticks:
			return true
		}
	}
}

// topTable returns a table of the running and the waiting processes.
func topTable() (string, error) {
	list, err := broker.List(broker.Path())
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "no kbuild of this user runs anything\n", nil
	}
	var b bytes.Buffer
	running, planned := 0, int64(0)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PID\tFOR\tMEMORY\tARCH\tWHAT\tWAITS FOR\tPROJECT")
	for _, e := range list {
		if e.Held {
			running++
			planned += e.Memory
		}
		fmt.Fprintf(w, "%d\t%v\t%s\t%s\t%s\t%s\t%s\n", e.PID, max(0, time.Since(e.Since).Truncate(time.Second)), memoryOf(e), term.Name(e.Arch), term.Name(e.Label), waitsFor(e), term.Name(e.Project))
	}
	w.Flush()
	text := fmt.Sprintf("%d running, %s of memory planned; %d waiting\n", running, engine.Size(planned), len(list)-running)
	for line := range strings.Lines(b.String()) {
		text += strings.TrimRight(line, " \n") + "\n"
	}
	return text, nil
}

// memoryOf returns the planned memory of a request. A request for all memory runs alone.
func memoryOf(e broker.Entry) string {
	switch {
	case e.Memory == 0:
		return "-"
	case e.Memory >= broker.AllMemory:
		return "all"
	}
	return engine.Size(e.Memory)
}

func waitsFor(e broker.Entry) string {
	switch {
	case e.Held:
		return ""
	case e.Waits == broker.Turn:
		return fmt.Sprintf("its turn, after %d", e.Behind)
	case e.Waits == broker.None:
		return "nothing" // it may start but has not noticed yet
	case e.Waits == broker.Processors:
		return fmt.Sprintf("one of %d processors", e.Limits.Processors)
	}
	return "memory, of " + engine.Size(e.Limits.Memory)
}

// topJSON writes an object for each running or waiting process.
func topJSON(c *cli) error {
	list, err := broker.List(broker.Path())
	if err != nil {
		return err
	}
	for _, e := range list {
		event := map[string]any{"event": "running", "pid": e.PID, "project": e.Project, "label": e.Label, "arch": e.Arch, "memory": e.Memory,
			"since": e.Since.UTC().Format(time.RFC3339Nano), "processors_limit": e.Limits.Processors, "memory_limit": e.Limits.Memory}
		if !e.Held {
			event["event"], event["waits_for"] = "waiting", e.Waits
			if e.Behind != 0 {
				event["after"] = e.Behind
			}
		}
		if err := c.out.Event(event); err != nil {
			return err
		}
	}
	return nil
}
