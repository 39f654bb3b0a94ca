package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var toolNames = []string{"kbuild", "ninja", "make", "ccache", "sccache"}

// A lane is one tool with its own tree, home and cache. With -count each tool has two lanes: one is
// timed and one is traced, so that tracing does not affect the times.
type lane struct {
	options *options
	tool    string
	tracing bool
	dir     string
	tree    string
	project project
	env     []string
	server  *server
	broken  bool // the tool cannot build this project at all
}

// A measure is the cost of one build.
type measure struct {
	wall, cpu time.Duration
	processes counts // for a traced lane
	err       error
	stale     string // which part of the executable does not match the sources
	skipped   bool
}

// openLanes returns the lanes opened so far even if one fails, so that closeLanes can close them.
func openLanes(o *options, v variant) ([]*lane, error) {
	var lanes []*lane
	for _, tracing := range []bool{false, true} {
		for _, t := range o.tools {
			if tracing && !o.count {
				continue
			}
			name := t
			if tracing {
				name += "-traced"
			}
			l, err := openLane(o, v, t, name, tracing)
			if l != nil {
				lanes = append(lanes, l)
			}
			if err != nil {
				return lanes, err
			}
		}
	}
	return lanes, nil
}

func openLane(o *options, v variant, tool, name string, tracing bool) (*lane, error) {
	l := &lane{options: o, tool: tool, tracing: tracing, dir: filepath.Join(o.dir, v.name, name)}
	if err := os.RemoveAll(l.dir); err != nil {
		return nil, err
	}
	l.tree = filepath.Join(l.dir, "tree")
	l.project = project{variant: v, archs: o.archs, sources: sourceNames[:o.sources], ccbin: o.ccbin}
	if o.toolkit != "" {
		l.project.libs = filepath.Join(o.toolkit, "lib64")
	}
	for _, d := range []string{"home", "cache", "tmp"} {
		if err := os.MkdirAll(filepath.Join(l.dir, d), 0o777); err != nil {
			return nil, err
		}
	}
	l.env = l.environment(os.Environ())
	if tool != "sccache" {
		return l, nil
	}
	var err error
	l.server, err = startServer(l)
	return l, err
}

func closeLanes(lanes []*lane) {
	for _, l := range lanes {
		l.server.stop(l.env)
	}
}

// environment returns the user's environment without variables that affect caches or compilers.
func (l *lane) environment(user []string) []string {
	env := slices.DeleteFunc(slices.Clone(user), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "CCACHE_") || strings.HasPrefix(name, "SCCACHE_") || strings.HasPrefix(name, "KBUILD_") ||
			strings.HasPrefix(name, "NVCC_") || strings.HasPrefix(name, "XDG_")
	})
	cache := filepath.Join(l.dir, "cache")
	env = append(env, "HOME="+filepath.Join(l.dir, "home"), "TMPDIR="+filepath.Join(l.dir, "tmp"),
		"KBUILD_CACHE_DIR="+cache, "CCACHE_DIR="+cache, "SCCACHE_DIR="+cache, "SCCACHE_IDLE_TIMEOUT=0",
		"SCCACHE_SERVER_UDS="+filepath.Join(l.dir, "s"))
	if l.options.toolkit != "" {
		env = append(env, "CUDA_HOME="+l.options.toolkit,
			"PATH="+filepath.Join(l.options.toolkit, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	return env
}

// command returns the command that builds the tree.
func (l *lane) command() []string {
	if l.tool == "kbuild" {
		return []string{l.options.kbuild, "-j", fmt.Sprint(l.options.jobs), "--progress", "none"}
	}
	if l.tool == "make" {
		return []string{"make", "-j", fmt.Sprint(l.options.jobs)}
	}
	return []string{"ninja", "-j", fmt.Sprint(l.options.jobs)}
}

// executable returns the path of the program that the tool builds.
func (l *lane) executable() string {
	if l.tool == "kbuild" {
		return filepath.Join(l.tree, "build", "bin", "app")
	}
	return filepath.Join(l.tree, "out", "app")
}

// measure applies the scenario to the tree and builds it.
func (l *lane) measure(ctx context.Context, s scenario) measure {
	if l.broken {
		return measure{skipped: true}
	}
	home := l.tree
	if s.elsewhere {
		l.tree = filepath.Join(l.dir, "another checkout")
		defer func() { os.RemoveAll(l.tree); l.tree = home }()
	}
	if err := s.apply(l); err != nil {
		return measure{err: err}
	}
	if err := l.write(); err != nil {
		return measure{err: err}
	}
	m := l.build(ctx)
	if m.err != nil {
		l.broken = s.name == "cold"
		return m
	}
	m.stale = l.staleness(s)
	return m
}

// write writes the tree. The launcher is in its own file, so that build.ninja is the same for every
// tool.
func (l *lane) write() error {
	if err := l.project.write(l.tree); err != nil {
		return err
	}
	launcher := ""
	if l.tool == "ccache" || l.tool == "sccache" {
		launcher = l.tool
	}
	path, text := filepath.Join(l.tree, "launcher.ninja"), "launcher = "+launcher+"\n"
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o666)
}

// build runs the tool once. The CPU time covers its process tree, and its server's work during the
// build.
func (l *lane) build(ctx context.Context) measure {
	argv, log := l.command(), filepath.Join(l.dir, "trace")
	if l.tracing {
		argv = traced(log, argv)
	}
	before, mark := l.server.cpu(), l.server.traceSize()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // stops compilers
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Env = l.tree, l.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	m := measure{wall: time.Since(start)}
	if err != nil {
		m.err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(out.String(), 1500))
		return m
	}
	m.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + l.server.cpu() - before
	if l.tracing {
		m.processes = counts{}
		m.err = m.processes.readTrace(log, 0)
		if m.err == nil && l.server != nil {
			m.err = m.processes.readTrace(l.server.trace, mark)
		}
	}
	return m
}

func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-n):]
}

// staleness returns the part of the executable that does not match the sources, or "". A cache may
// have returned an old object.
func (l *lane) staleness(s scenario) string {
	files, err := l.project.files()
	if err != nil {
		return err.Error()
	}
	program, err := os.ReadFile(l.executable())
	if err != nil {
		return err.Error()
	}
	text, _, _ := strings.Cut(files["src/gemm.cu"][strings.Index(files["src/gemm.cu"], "kbench host"):], `"`)
	if !bytes.Contains(program, []byte(text)) {
		return "host code"
	}
	if !s.sm90 || !slices.Contains(l.project.archs, "sm_90") {
		return ""
	}
	at := strings.Index(files["src/math.cu"], "0x5eed00")
	sass, err := l.sass("-arch", "sm_90")
	if err != nil {
		return err.Error()
	}
	if want := files["src/math.cu"][at : at+len("0x5eed001")]; !strings.Contains(sass, want) {
		return "sm_90 code"
	}
	return ""
}

// sass returns the disassembled device code of the executable.
func (l *lane) sass(flags ...string) (string, error) {
	tool := "cuobjdump"
	if l.options.toolkit != "" {
		tool = filepath.Join(l.options.toolkit, "bin", tool)
	}
	cmd := exec.Command(tool, append(append([]string{"--dump-sass"}, flags...), l.executable())...)
	cmd.Env = l.env
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	return string(out), nil
}

// describe formats a measure as one line of progress.
func (l *lane) describe(m measure) string {
	switch {
	case m.skipped:
		return l.tool + ": skipped, it cannot build this"
	case m.err != nil:
		return fmt.Sprintf("%s: %v", l.tool, m.err)
	case l.tracing:
		return fmt.Sprintf("%s: %d processes", l.tool, m.processes["all"])
	}
	line := fmt.Sprintf("%s: %.2f s, CPU %.2f s", l.tool, m.wall.Seconds(), m.cpu.Seconds())
	if m.stale != "" {
		line += ", STALE " + m.stale
	}
	return line
}
