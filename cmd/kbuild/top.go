package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/kbuild-dev/kbuild/actions/broker"
	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

type topCmd struct{}

// Run prints what runs and what waits, once: `watch kbuild top` prints it again and again.
func (topCmd) Run(c *cli) error {
	list, err := broker.List(broker.Path())
	switch {
	case err != nil:
		return err
	case c.JSON:
		return topJSON(c, list)
	case len(list) == 0:
		fmt.Fprintln(c.out, "no kbuild of this user runs anything")
		return nil
	}
	running, planned := 0, int64(0)
	for _, e := range list {
		if e.Held {
			running++
			planned += e.Memory
		}
	}
	fmt.Fprintf(c.out, "%d running, %s of memory planned; %d waiting\n", running, engine.Size(planned),
		len(list)-running)
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PID\tFOR\tMEMORY\tARCH\tWHAT\tWAITS FOR\tPROJECT")
	for _, e := range list {
		fmt.Fprintf(w, "%d\t%v\t%s\t%s\t%s\t%s\t%s\n", e.PID,
			max(0, time.Since(e.Since).Truncate(time.Second)), memoryOf(e), term.Name(e.Arch),
			term.Name(e.Label), waitsFor(e), term.Name(e.Project))
	}
	return w.Flush()
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
func topJSON(c *cli, list []broker.Entry) error {
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
