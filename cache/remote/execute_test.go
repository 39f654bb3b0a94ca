package remote

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// ended is what the pretended program answers of a command: its name says what becomes of it.
func ended(id int, command string) Answer {
	switch command {
	case "is lost":
		return Answer{ID: id, Error: "the stream broke"}
	case "cannot be":
		return Answer{ID: id, Error: "no worker", Fatal: true}
	case "fails", "is wrong":
		return Answer{ID: id, Ran: &Outcome{ExitCode: 1, Stderr: []byte("no such machine\n")}}
	case "is not told":
		return Answer{ID: id}
	}
	return Answer{ID: id, Ran: &Outcome{Sent: 40 << 20, Received: 20 << 20, Moving: time.Second}}
}

// execute starts a cache whose server runs commands, runs some, one after the other, and says
// whether more may follow. What is wrong fails here too.
func execute(t *testing.T, commands ...string) (stats Stats, warned string, more bool) {
	t.Helper()
	t.Setenv("PRETEND", "executes")
	warning := make(chan string, 1)
	c, err := Start(Options{Program: os.Args[0], Address: "grpc://cache", Patience: time.Hour, Execute: true, Warn: func(text string) { warning <- text }})
	if err != nil {
		t.Fatal(err)
	}
	<-c.ready
	for _, command := range commands {
		out, err := c.Execute(t.Context(), Command{Argv: []string{command}})
		if (err == nil) != (out != nil) {
			t.Errorf("%s: %+v, %v", command, out, err)
		}
		if err == nil && out.ExitCode != 0 {
			c.Judge(out, command != "is wrong")
		}
	}
	if more = c.Executes(); !more {
		warned = <-warning
	}
	return c.Close(), warned, more
}

// Three commands that are lost one after the other end it, and one of which the server says that no
// other can run either does at once.
func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		commands, warned string
		lost             int
	}{
		"all is well":             {"well", "", 0},
		"two are lost, twice":     {"is lost,is lost,well,is lost,is not told", "", 4},
		"three are lost":          {"well,is lost,is not told,is lost", "the stream broke; from now on all of them run here", 3},
		"three fail":              {"fails,is lost,fails", `3 commands, one after the other, were lost; the last ended there with status 1 ("no such machine"), and well here; from now on`, 3},
		"sources are wrong":       {"is wrong,is wrong,is wrong,is wrong", "", 0},
		"two fail, one is wrong":  {"fails,is wrong,fails", "", 2},
		"well, and wrong between": {"fails,is wrong,fails,well,fails", "", 3},
		"none can run there":      {"cannot be", "no worker; from now on all of them run here", 1},
		"one that was told later": {"cannot be,well,is lost", "no worker; from now on", 2},
	} {
		stats, warned, more := execute(t, strings.Split(tt.commands, ",")...)
		if stats.Lost != tt.lost || more != (tt.warned == "") || !strings.Contains(warned, tt.warned) {
			t.Errorf("%s: %+v, %q, more %v", name, stats, warned, more)
		}
	}
}

// While nobody knows whether commands that failed there are wrong, and there are three with none
// that ended well after them, no more go there.
func TestDoubtful(t *testing.T) {
	t.Setenv("PRETEND", "executes")
	s := &printed{}
	c, err := Start(Options{Program: os.Args[0], Address: "grpc://cache", Patience: time.Hour, Execute: true, Warn: s.warn})
	if err != nil {
		t.Fatal(err)
	}
	<-c.ready
	run := func(command string) *Outcome {
		t.Helper()
		out, err := c.Execute(t.Context(), Command{Argv: []string{command}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := func(what string, want bool) {
		t.Helper()
		if got := c.Executes(); got != want {
			t.Errorf("%s: more may follow: %v", what, got)
		}
	}
	var all []*Outcome
	for range mostLost {
		want("before the third", true)
		all = append(all, run("is wrong"))
	}
	want("three are doubtful", false)
	c.Judge(all[0], false)
	want("one is known", true)
	run("is wrong")
	want("three again", false)
	run("well") // which was on its way
	want("one ended well", true)
	c.Judge(all[1], true)
	c.Judge(all[2], true)
	want("two were lost", true)
	if got := c.Close(); got.Lost != 2 || s.all() != "" {
		t.Errorf("%+v, %s", got, s.all())
	}
}

// A command that has ended here first is not lost, and one of a build that was interrupted is
// neither.
func TestBeaten(t *testing.T) {
	c, s := start(t, "executes", false, time.Hour)
	for range mostLost {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrBeaten)
		if _, err := c.Execute(ctx, Command{Argv: []string{"hangs"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("beaten: %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := c.Execute(ctx, Command{Argv: []string{"hangs"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	}
	if got := c.Close(); got.Beaten != mostLost || got.Lost != 0 || s.all() != "" {
		t.Errorf("%+v, %s", got, s.all())
	}
}

// How long files take to move is taken to be as this build has seen it, and before as of 20 MiB a
// second.
func TestOverhead(t *testing.T) {
	c, _ := start(t, "executes", false, time.Hour)
	defer c.Close()
	if got := c.Overhead(0); got != latency {
		t.Errorf("nothing takes %v", got)
	}
	if got := c.Overhead(firstRate); got != latency+time.Second {
		t.Errorf("before all: %v", got)
	}
	if out, err := c.Execute(t.Context(), Command{Argv: []string{"well"}}); err != nil {
		t.Fatal(out, err)
	}
	if got := c.Overhead(firstRate); got != latency+time.Second/2 { // 20 + 60 MiB in 1 + 1 seconds
		t.Errorf("then: %v", got)
	}
}

// Nobody has asked for it: no command runs elsewhere though the server would run it.
func TestNotAsked(t *testing.T) {
	c, _ := start(t, "executes", false, time.Hour)
	defer c.Close()
	if <-c.ready; c.Executes() {
		t.Error("commands run on other machines")
	}
}
