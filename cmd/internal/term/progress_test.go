package term

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/cmd/internal/golden"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// environment sets the variables that terminals and CI systems set, and empties the others.
func environment(t *testing.T, pairs ...string) {
	for _, name := range []string{"TERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"} {
		t.Setenv(name, "")
	}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		t.Setenv(name, value)
	}
}

func action(id int, kind graph.Kind, name string, archs ...string) *graph.Action {
	return &graph.Action{ID: graph.ActionID(id), Kind: kind, Target: "library.solver", Name: name, Archs: archs,
		Argv: []string{"nvcc", "-c", name, "-o", "out dir/" + name + ".o"}, Pos: graph.Pos{File: "kernels.hcl", Line: 12, Column: 1}}
}

// drama is a run with one of everything. Only its seams take time.
func drama(o sched.Observer) sched.Summary {
	a := []*graph.Action{
		action(0, graph.Compile, "src/a.cu", "sm_80", "sm_90"), action(1, graph.Compile, "src/b.cu", "sm_80", "sm_90"),
		action(2, graph.Compile, "src/c.cu", "lto_80"), action(3, graph.HostCompile, "src/main.cpp"),
		action(4, graph.Archive, "libsolver.a"), action(5, graph.DeviceLink, "bench", "sm_80"), action(6, graph.HostLink, "bin/bench"),
	}
	o.Start(7)
	o.Finished(a[3], sched.Result{Status: sched.UpToDate}, 1, 7)
	o.Finished(a[2], sched.Result{Status: sched.Cached, Output: []byte("src/c.cu(7): warning #177-D: \x1b[1mvariable\x1b[0m \"x\" is unused\r\n")}, 2, 7)
	o.Started(a[0])
	o.Started(a[1])
	time.Sleep(1500 * time.Millisecond)
	o.Finished(a[0], sched.Result{Status: sched.Ran, Reason: "no record", Argv: a[0].Argv, Elapsed: 1500 * time.Millisecond, CPU: 1400 * time.Millisecond, MaxRSS: 300 << 20, Worker: "node7"}, 3, 7)
	time.Sleep(time.Second)
	o.Finished(a[1], sched.Result{Status: sched.Failed, Err: errors.New("exit status 2"), Reason: "input src/b.cu changed", Argv: a[1].Argv,
		Output: []byte("src/b.cu(3): error: identifier \"foo\" is undefined\n1 error detected"), Elapsed: 2500 * time.Millisecond, CPU: 2 * time.Second, MaxRSS: 1 << 20}, 4, 7)
	for i, skipped := range a[4:] {
		o.Finished(skipped, sched.Result{Status: sched.Skipped}, 5+i, 7)
	}
	return sched.Summary{Actions: 7, Ran: 1, Cached: 1, UpToDate: 1, Failed: 1, Skipped: 3}
}

func TestStreams(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		json bool
	}{
		{name: "plain", opts: Options{Mode: Plain}},
		{name: "plain_verbose", opts: Options{Mode: Plain, Verbose: true}},
		{name: "plain_color", opts: Options{Mode: Plain, Color: "always"}},
		{name: "quiet", opts: Options{Mode: Plain, Quiet: true}},
		{name: "none", opts: Options{Mode: None}},
		{name: "github", opts: Options{Mode: Plain, GitHub: true}},
		{name: "json", opts: Options{Mode: None}, json: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stderr, stdout bytes.Buffer
				o := tc.opts
				environment(t)
				o.Err = &stderr
				if tc.json {
					o.JSON = &stdout
				}
				p := New(o)
				p.Diagnostic(manifest.Diagnostic{Severity: manifest.Warning, Summary: "partial LTO", Pos: manifest.Pos{File: "kernels.hcl", Line: 3, Column: 5}})
				p.Finish(drama(p), 2500*time.Millisecond)
				got := stderr.Bytes()
				if tc.json {
					got = stdout.Bytes()
				}
				golden.Check(t, tc.name+".golden", got)
			})
		})
	}
}

// onTerminal makes a TTY Progress that draws on a model screen.
func onTerminal(t *testing.T, cols, rows int, o Options) (*Progress, *terminal) {
	screen := newTerminal(t, cols)
	environment(t, "TERM=xterm")
	o.Mode, o.Err = TTY, screen
	o.Size = func() (int, int) { return screen.width(), rows }
	return New(o), screen
}

// settle lets the ticker draw once more.
func settle() {
	time.Sleep(redrawInterval)
	synctest.Wait()
}

func TestTerminalScreens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var film bytes.Buffer
		p, screen := onTerminal(t, 60, 24, Options{Jobs: 8, Expected: func(a *graph.Action) (time.Duration, bool) { return 10 * time.Second, true },
			Actions: []*graph.Action{action(0, graph.Compile, "src/a0.cu"), action(1, graph.Compile, "src/a1.cu"), action(2, graph.Compile, "src/a2.cu")}})
		shot := func(what string) {
			settle()
			fmt.Fprintf(&film, "== %s\n%s\n", what, screen.screen())
		}
		p.Start(9)
		var a []*graph.Action
		for i := range 6 {
			a = append(a, action(i, graph.Compile, fmt.Sprintf("src/a%d.cu", i), "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"))
			p.Started(a[i])
			if i == 2 {
				shot("three running")
			}
			time.Sleep(time.Second)
		}
		shot("six running")
		p.Finished(a[0], sched.Result{Status: sched.Ran, Elapsed: 6 * time.Second, Output: []byte("a0.cu: a warning\n")}, 1, 9)
		p.Finished(a[1], sched.Result{Status: sched.Failed, Err: errors.New("exit status 1"), Output: []byte("a1.cu: an error")}, 2, 9)
		shot("one warned, one failed")
		for i, b := range a[2:] {
			p.Finished(b, sched.Result{Status: sched.Ran, Elapsed: time.Minute}, 3+i, 9)
		}
		shot("none running")
		p.Finish(sched.Summary{Actions: 9, Ran: 5, Failed: 1, Skipped: 3}, 75*time.Second)
		shot("finished")
		golden.Check(t, "tty.golden", film.Bytes())
	})
}

// TestPermanentLinesStay mixes live and permanent text in many ways: what stays must read as if
// there had been no live lines at all.
func TestPermanentLinesStay(t *testing.T) {
	for _, rows := range []int{1, 2, 4, 24} {
		synctest.Test(t, func(t *testing.T) {
			p, screen := onTerminal(t, 40, rows, Options{Jobs: 4})
			p.Start(50)
			var want []string
			for i := range 50 {
				a := action(i, graph.Compile, strings.Repeat("long/", i%12)+"größe.cu", "sm_80")
				p.Started(a)
				if i%3 == 0 {
					settle()
				}
				line := fmt.Sprintf("line %d", i)
				p.Diagnostic(manifest.Diagnostic{Severity: manifest.Note, Summary: line})
				want = append(want, "kbuild: "+line)
				if i%5 != 0 {
					p.Finished(a, sched.Result{Status: sched.Ran}, i, 50)
				}
				if i == 25 {
					settle()
					screen.resize(23)
				}
			}
			settle()
			p.Finish(sched.Summary{Actions: 50, Ran: 50}, time.Second)
			want = append(want, "kbuild: 50 actions: 50 ran in 1.0s")
			got := strings.Split(screen.screen(), "\n")
			if !sameText(got, want) {
				t.Errorf("rows %d:\n%s", rows, cmp.Diff(want, got))
			}
		})
	}
}

// sameText compares without the places where a narrow screen wraps.
func sameText(a, b []string) bool {
	squeeze := func(s []string) string { return strings.ReplaceAll(strings.Join(s, ""), " ", "") }
	return squeeze(a) == squeeze(b)
}

// What a shell writes while kbuild is suspended stays.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, screen := onTerminal(t, 40, 24, Options{Jobs: 4})
		p.Start(9)
		for i := range 3 {
			p.Started(action(i, graph.Compile, "src/a.cu", "sm_80"))
		}
		settle()
		p.mu.Lock()
		screen.Write([]byte("\n[1]+  Stopped  kbuild\n$ ls\na b c\n$ fg\n"))
		p.redrawn = p.redrawn.Add(-time.Minute) // no ticker ticks in a process that is stopped
		p.mu.Unlock()
		settle()
		p.Diagnostic(manifest.Diagnostic{Severity: manifest.Note, Summary: "more"})
		p.Finish(sched.Summary{Actions: 9, Ran: 9}, time.Second)
		if got, want := strings.TrimSpace(screen.screen()), "[0/9] 0:00, 3 running\n"+strings.Repeat("   0.1s  compile src/a.cu (sm_80)\n", 3)+
			"[1]+  Stopped  kbuild\n$ ls\na b c\n$ fg\nkbuild: more\nkbuild: 9 actions: 9 ran in 1.0s"; got != want {
			t.Errorf("%s", cmp.Diff(want, got))
		}
	})
}

// TestFit: of a line that is too long the architecture stays, and the end of the name.
func TestFit(t *testing.T) {
	a := action(0, graph.CICC, "src/solvers/implicit/gemm.cu", "compute_80", "compute_90")
	for cols, want := range map[int]string{
		80: "cicc src/solvers/implicit/gemm.cu (compute_80, compute_90)",
		50: "cicc src/solvers/implicit/gemm.cu (compute_80 +1)",
		40: "cicc …/implicit/gemm.cu (compute_80 +1)",
		33: "cicc …/gemm.cu (compute_80 +1)",
		25: "cicc gem… (compute_80 +1)",
		11: "cicc … (compute_80 +1)",
	} {
		if got := fit(a, cols); got != want {
			t.Errorf("%d columns: %q, want %q", cols, got, want)
		}
	}
}

// TestEstimateDoesNotGrow: it counts down, or is not shown.
func TestEstimateDoesNotGrow(t *testing.T) {
	a := []*graph.Action{action(0, graph.Compile, "a"), action(1, graph.Compile, "b"), action(2, graph.Compile, "new"), action(3, graph.Compile, "newer")}
	start := time.Unix(1000, 0)
	f := newForecast(Options{Jobs: 1, Actions: a, Expected: func(a *graph.Action) (time.Duration, bool) { return 4 * time.Second, a.ID < 2 }})
	f.finished(a[0], true, time.Second)
	check := func(at, want time.Duration, wantOK bool) {
		t.Helper()
		if got, ok := f.shown(start.Add(at), nil); ok != wantOK || ok && got != want {
			t.Errorf("at %v: %v %v, want %v %v", at, got, ok, want, wantOK)
		}
	}
	check(0, 6*time.Second, true) // 4, and 1 for each of the others
	f.finished(a[1], true, 19*time.Second)
	check(2*time.Second, 4*time.Second, true) // 20 by now
	check(6*time.Second, 0, false)
	f.finished(a[2], false, 0)
	f.finished(a[3], false, 0)
	check(7*time.Second, 0, false)
}

// TestHeartbeat: a log tells of an action that will take long when it starts, and of what still
// runs when it was silent for a minute.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		environment(t)
		p := New(Options{Err: &out, Mode: Plain, Expected: func(a *graph.Action) (time.Duration, bool) { return 250 * time.Second, a.ID == 1 }})
		p.Start(3)
		links := action(1, graph.NVLink, "bench", "sm_90")
		p.Started(links)
		p.Started(action(2, graph.Compile, "src/a.cu", "sm_80"))
		time.Sleep(63 * time.Second)
		synctest.Wait()
		p.Finished(action(2, graph.Compile, "src/a.cu", "sm_80"), sched.Result{Status: sched.Ran}, 1, 3)
		first := action(3, graph.NVLink, "first", "sm_90")
		first.Work.Link = &graph.Link{LTO: true}
		p.Started(first)
		time.Sleep(130 * time.Second)
		synctest.Wait()
		p.Finish(sched.Summary{Actions: 3, Ran: 3}, 193*time.Second)
		golden.Check(t, "heartbeat.golden", out.Bytes())
	})
}

// TestLogs: a terminal of a CI system is a log, and one of GitHub folds what is long, and takes no
// line of a compiler for a command.
func TestLogs(t *testing.T) {
	for _, ci := range []string{"true", "1", "false", ""} {
		environment(t, "CI="+ci, "TERM=xterm")
		if got, want := Auto.resolve(!InCI()), ci == "true" || ci == "1"; (got == Plain) != want {
			t.Errorf("CI=%s: %s", ci, got)
		}
	}
	var out bytes.Buffer
	environment(t)
	p := New(Options{Err: &out, Mode: Plain, GitHub: true})
	p.Finished(action(1, graph.Compile, "a.cu"), sched.Result{Status: sched.Ran, Output: []byte(strings.Repeat("a.cu(1): warning: w\n", 11))}, 1, 2)
	p.Finished(action(2, graph.Compile, "b.cu"), sched.Result{Status: sched.Ran, Output: []byte("::error::not kbuild's\n")}, 2, 2)
	golden.Check(t, "github_log.golden", out.Bytes())
}

func TestRedrawIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, screen := onTerminal(t, 80, 24, Options{Jobs: 4})
		p.Start(1000)
		for i := range 1000 {
			a := action(i, graph.Compile, "src/a.cu")
			p.Started(a)
			p.Finished(a, sched.Result{Status: sched.Ran}, i+1, 1000)
		}
		settle()
		if screen.writes != 1 {
			t.Errorf("%d writes for 1000 actions within one interval", screen.writes)
		}
		p.Finish(sched.Summary{Actions: 1000, Ran: 1000}, time.Second)
	})
}

// TestNothingToDoIsOneLine: the live lines must not flash in a run that ends at once.
func TestNothingToDoIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, screen := onTerminal(t, 80, 24, Options{})
		p.Start(1)
		p.Finished(action(0, graph.Compile, "src/a.cu"), sched.Result{Status: sched.UpToDate}, 1, 1)
		p.Finish(sched.Summary{Actions: 1, UpToDate: 1}, time.Millisecond)
		if got, want := screen.screen(), "kbuild: nothing to do (1 action up to date)\n"; got != want || screen.writes != 1 {
			t.Errorf("%d writes, screen %q, want %q", screen.writes, got, want)
		}
	})
}

func TestSummaries(t *testing.T) {
	for _, tc := range []struct {
		name    string
		summary sched.Summary
		quiet   bool
		want    string
	}{
		{name: "mixed", summary: sched.Summary{Actions: 17, Ran: 3, Cached: 12, UpToDate: 2}, want: "kbuild: 17 actions: 3 ran, 12 cached, 2 up to date in 4.2s\n"},
		{name: "nothing", summary: sched.Summary{Actions: 17, UpToDate: 17}, want: "kbuild: nothing to do (17 actions up to date)\n"},
		{name: "quiet", summary: sched.Summary{Actions: 17, Ran: 17}, quiet: true},
		{name: "failed", summary: sched.Summary{Actions: 17, Ran: 3, UpToDate: 7, Failed: 2, Skipped: 5}, quiet: true, want: "kbuild: 2 failed, 5 skipped, 3 ran, 7 up to date in 4.2s\n"},
		{name: "interrupted", summary: sched.Summary{Actions: 17, Ran: 3, Skipped: 14, Interrupted: true}, want: "kbuild: interrupted: 14 skipped, 3 ran in 4.2s\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			environment(t)
			New(Options{Err: &out, Quiet: tc.quiet}).Finish(tc.summary, 4200*time.Millisecond)
			if out.String() != tc.want {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}

func TestForecast(t *testing.T) {
	a := []*graph.Action{action(0, graph.Compile, "a"), action(1, graph.Compile, "b"), action(2, graph.DeviceLink, "c"), action(3, graph.HostLink, "new")}
	history := map[graph.ActionID]time.Duration{0: 4 * time.Second, 1: 6 * time.Second, 2: 20 * time.Second}
	start := time.Unix(1000, 0)
	f := newForecast(Options{Jobs: 2, Actions: a, Expected: func(a *graph.Action) (time.Duration, bool) { d, ok := history[a.ID]; return d, ok }})
	check := func(what string, at time.Duration, running []runningAction, want time.Duration, wantOK bool) {
		t.Helper()
		if got, ok := f.left(start.Add(at), running); got != want || ok != wantOK {
			t.Errorf("%s: %v %v, want %v %v", what, got, ok, want, wantOK)
		}
	}
	check("an action without history and nothing measured", 0, nil, 0, false)
	f.finished(a[0], true, 10*time.Second)
	check("6 + 20 + 5, at the pace of a, for two jobs", 0, nil, 15500*time.Millisecond, true)
	check("one second into b", time.Second, []runningAction{{a[1], start}}, 15*time.Second, true)
	f.finished(a[1], false, 0)
	f.finished(a[3], false, 0)
	check("the longest bounds it", 5*time.Second, []runningAction{{a[2], start}}, 15*time.Second, true)
	check("overdue", time.Minute, []runningAction{{a[2], start}}, 0, true)
}

func TestSpelling(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0:00", 12 * time.Second: "0:12", 185 * time.Second: "3:05", 3723 * time.Second: "1:02:03"} {
		if got := clock(d); got != want {
			t.Errorf("clock(%v) = %q, want %q", d, got, want)
		}
	}
	for in, want := range map[string]string{"short": "short", "exactly te": "exactly te", "eleven char": "eleven ch…", "矢量矢量矢量": "矢量矢量…"} {
		if got := truncate(in, 10); got != want {
			t.Errorf("truncate(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Name("a\x1b[2Jb\nc\xff"); got != `a\x1b[2Jb\nc\xff` {
		t.Errorf("Name: %q", got)
	}
}
