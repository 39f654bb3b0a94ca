package main

import (
	"errors"
	"flag"
	"io"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestReadTrace(t *testing.T) {
	const log = `10 execve("/usr/bin/nvcc", ["nvcc", "-dc", "a.cu"], 0x55 /* 30 vars */) = 0
10 execve("/usr/lib/nvidia-cuda-toolkit/bin/nvcc", ["/usr/lib/nvidia-cuda-toolkit/bin/nvcc", "-dc"], 0x55 /* 30 vars */) = 0
11 execve("/usr/local/bin/cicc", ["cicc"], 0x55 /* 30 vars */) = -1 ENOENT (No such file or directory)
11 execve("/usr/bin/cicc", ["cicc", "--c++17"], 0x55 /* 30 vars */ <unfinished ...>
12 execve("/usr/libexec/cc1plus", ["/usr/libexec/cc1plus", "-E", "-quiet"], 0x55 /* 30 vars */) = 0
11 <... execve resumed>)         = 0
13 execve("/usr/libexec/cc1plus", ["/usr/libexec/cc1plus", "-quiet", "a \"-O2\" b"], 0x55 /* 30 vars */) = 0
14 execve("/usr/bin/x86_64-linux-gnu-as", ["as"], 0x55 /* 30 vars */) = 0
15 execve("/bin/sh", ["sh", "-c", "cicc"], 0x55 /* 30 vars */) = 0
16 execve("/usr/bin/ptxas", ["ptxas"], 0x55 /* 30 vars */ <unfinished ...>
16 <... execve resumed>)         = -1 EACCES (Permission denied)
+++ killed by SIGKILL +++
`
	got := counts{}
	if err := got.read(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	want := counts{"nvcc": 1, "cicc": 1, "preprocess": 1, "host compile": 1, "as": 1, "sh": 1, "all": 6}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCPUOfStat(t *testing.T) {
	const stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 200 0 0 150 50 1000 25 20 0 1 0 99 0 0"
	if got, want := cpuOfStat(stat), 12250*time.Millisecond; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The user's cache settings and compiler flags must not reach a lane.
func TestEnvironment(t *testing.T) {
	l := &lane{dir: "/d", options: &options{}}
	got := "\n" + strings.Join(l.environment([]string{
		"LANG=C", "CCACHE_SLOPPINESS=x", "SCCACHE_REDIS=x", "KBUILD_VAR_a=x", "NVCC_APPEND_FLAGS=x", "XDG_CACHE_HOME=x",
	}), "\n") + "\n"
	if strings.Contains(got, "=x\n") {
		t.Errorf("the user's settings are left:%s", got)
	}
	for _, want := range []string{"LANG=C", "CCACHE_DIR=/d/cache", "KBUILD_CACHE_DIR=/d/cache", "SCCACHE_DIR=/d/cache", "HOME=/d/home"} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("no %s in:%s", want, got)
		}
	}
}

func TestTable(t *testing.T) {
	cold, touch := scenarios[0], scenarios[9]
	tb := &table{variant: variants[0]}
	lanes := map[string]*lane{}
	for _, tool := range toolNames {
		lanes[tool] = &lane{tool: tool}
	}
	tb.add(cold, lanes["ninja"], measure{wall: 4 * time.Second, cpu: 8 * time.Second})
	tb.add(cold, lanes["kbuild"], measure{wall: 2 * time.Second, cpu: 2 * time.Second})
	tb.add(cold, &lane{tool: "kbuild", tracing: true}, measure{processes: counts{"cicc": 7, "all": 9}})
	tb.add(cold, lanes["sccache"], measure{err: errors.New("exit status 1")})
	tb.add(touch, lanes["ccache"], measure{wall: time.Second, cpu: time.Second, stale: "host code"})
	tb.add(touch, lanes["sccache"], measure{skipped: true})
	var b strings.Builder
	tb.markdown(&b, toolNames)
	for _, want := range []string{
		"| cold | 2.00 (0.50x) / 2.00 (0.25x) | 4.00 / 8.00 |  |  | fails |",
		"| touch |  |  |  | STALE host code 1.00 / 1.00 | - |",
		"| cold | kbuild | 7 | 0 |",
		"| cold | ninja | - |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if err := tb.verdict(); err != nil {
		t.Errorf("only the peers failed, but: %v", err)
	}
	tb.add(touch, lanes["kbuild"], measure{wall: 1, stale: "sm_90 code"})
	if err := tb.verdict(); err == nil || !strings.Contains(err.Error(), "sm_90 code") {
		t.Errorf("stale code of kbuild is no error: %v", err)
	}
}

func TestFirstDifference(t *testing.T) {
	if n, _, _ := firstDifference("a\nb\n", "a\nb\n"); n != 0 {
		t.Errorf("equal texts differ in line %d", n)
	}
	if n, x, y := firstDifference("a\nb", "a\nc"); n != 2 || x != "b" || y != "c" {
		t.Errorf("got %d %q %q", n, x, y)
	}
	if n, _, y := firstDifference("a\nb", "a"); n != 2 || y != "(end)" {
		t.Errorf("a shorter text: got %d %q", n, y)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-tools", "scons"}, {"-variants", "fast"}, {"-sources", "1"}, {"-archs", "80"}, {"-scenarios", "warm"}, {"-trees", "many"}, {"extra"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	o, err := parseOptions([]string{"-tools", "kbuild,ninja", "-variants", "rdc", "-sources", "3", "-j", "4"}, io.Discard)
	if err != nil || len(o.tools) != 2 || len(o.variants) != 1 || o.sources != 3 || o.jobs != 4 || len(o.scenarios) != len(scenarios) {
		t.Errorf("got %+v, %v", o, err)
	}
	if _, err := parseOptions([]string{"-h"}, io.Discard); err != flag.ErrHelp {
		t.Errorf("-h: %v", err)
	}
}
