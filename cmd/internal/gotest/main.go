// Command gotest runs `go test`, or the go command in $GO, with its arguments. Every two minutes it
// lists the running tests. The suite has no time limit, so that list is how a hang shows.
//
// It reads the events of `go test -json`. It prints what `go test` prints without -v: the result of
// each package, and the output of failed tests.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const interval = 2 * time.Minute

func main() {
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
	ticker := time.NewTicker(interval)
	watch(os.Stdout, lines(out), ticker.C)
	if err := cmd.Wait(); err != nil {
		os.Exit(max(1, cmd.ProcessState.ExitCode()))
	}
}

// lines sends each line of r and closes the channel at the end of r.
func lines(r io.Reader) <-chan []byte {
	c := make(chan []byte)
	go func() {
		defer close(c)
		for b := bufio.NewReader(r); ; {
			line, err := b.ReadBytes('\n')
			if len(line) > 0 {
				c <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// event is a line of `go test -json`. See `go doc test2json` and `go help buildjson`.
type event struct {
	Time                          time.Time
	Action, Package, Test, Output string
}

// watch prints the results in events to w. It prints the running tests at each tick.
func watch(w io.Writer, events <-chan []byte, tick <-chan time.Time) {
	running := map[[2]string]time.Time{}       // since when, by package and test
	output := map[[2]string]*strings.Builder{} // by package and top-level test
	for {
		select {
		case now := <-tick:
			printRunning(w, running, now)
		case line, ok := <-events:
			if !ok {
				return
			}
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				w.Write(line) // not an event but an error of the go command
				continue
			}
			top, _, _ := strings.Cut(e.Test, "/")
			id, topID := [2]string{e.Package, e.Test}, [2]string{e.Package, top}
			switch e.Action {
			case "run", "cont":
				running[id] = e.Time
			case "pause": // it waits for other parallel tests
				delete(running, id)
			case "build-output":
				io.WriteString(w, e.Output)
			case "output":
				if e.Test == "" {
					if e.Output != "PASS\n" {
						io.WriteString(w, e.Output)
					}
				} else if !strings.HasPrefix(e.Output, "=== ") {
					if output[topID] == nil {
						output[topID] = new(strings.Builder)
					}
					output[topID].WriteString(e.Output)
				}
			case "pass", "skip", "fail":
				for key, text := range output {
					// The test failed, or the package ended while it ran.
					if e.Test == top && key == topID || e.Test == "" && key[0] == e.Package {
						if e.Action == "fail" {
							io.WriteString(w, text.String())
						}
						delete(output, key)
					}
				}
				maps.DeleteFunc(running, func(key [2]string, _ time.Time) bool {
					return key == id || e.Test == "" && key[0] == e.Package
				})
			}
		}
	}
}

// printRunning lists the running tests. A test with a running subtest is not listed.
func printRunning(w io.Writer, running map[[2]string]time.Time, now time.Time) {
	ids := slices.SortedFunc(maps.Keys(running), func(a, b [2]string) int {
		return cmp.Or(running[a].Compare(running[b]), slices.Compare(a[:], b[:]))
	})
	for _, id := range ids {
		below := func(o [2]string) bool { return o[0] == id[0] && strings.HasPrefix(o[1], id[1]+"/") }
		if !slices.ContainsFunc(ids, below) {
			fmt.Fprintf(w, "running  %s %s %v\n", id[0], id[1], now.Sub(running[id]).Round(time.Second))
		}
	}
}
