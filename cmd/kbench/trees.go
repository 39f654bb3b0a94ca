package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Trees measure the build tool alone. A tree has N compiles by a compiler that takes no time, a
// hundred per library, each with its own source and header. Every tool has its own tree; the tools
// take turns.

// treeRuns is the number of runs of each tool per scenario, except the first.
const treeRuns = 10

const perLibrary = 100

// cost is the cost of one run.
type cost struct {
	wall, cpu time.Duration
	rss       int64 // bytes
}

// treeTool is a build tool, or a program that measures the minimum cost.
type treeTool struct {
	name string
	argv []string
	dir  string
	env  []string
}

// benchTrees measures trees of the requested sizes.
func benchTrees(ctx context.Context, o *options, out io.Writer) error {
	tools := filepath.Join(o.dir, "tools")
	if err := os.MkdirAll(tools, 0o777); err != nil {
		return err
	}
	for source, program := range map[string]string{"compiler.c": "g++", "stat.c": "lstat", "spawn.c": "spawn"} {
		text, err := embedded.ReadFile("trivial/" + source)
		if err != nil {
			return err
		}
		name := filepath.Join(tools, source)
		if err := os.WriteFile(name, text, 0o666); err != nil {
			return err
		}
		if text, err := exec.CommandContext(ctx, "cc", "-O2", "-o", filepath.Join(tools, program), name).CombinedOutput(); err != nil {
			return fmt.Errorf("cc: %w\n%s", err, text)
		}
	}
	fmt.Fprintf(out, "\n| compiles | scenario | tool | wall ms | CPU ms | peak MiB |\n|---:|---|---|---:|---:|---:|\n")
	for _, n := range o.trees {
		if err := benchTree(ctx, o, out, n, filepath.Join(tools, "g++")); err != nil {
			return fmt.Errorf("%d compiles: %w", n, err)
		}
	}
	return nil
}

func benchTree(ctx context.Context, o *options, out io.Writer, n int, compiler string) error {
	var tools []*treeTool
	for _, name := range append([]string{o.kbuild}, o.ninjas...) {
		t, err := newTree(o, n, name, compiler, len(tools))
		if err != nil {
			return err
		}
		tools = append(tools, t)
	}
	spawn, err := newTree(o, n, filepath.Join(filepath.Dir(compiler), "spawn"), compiler, len(tools))
	if err != nil {
		return err
	}
	full := map[*treeTool][]cost{}
	for _, t := range append(tools, spawn) {
		s, err := t.run(ctx)
		if err != nil {
			return err
		}
		full[t] = append(full[t], s)
	}
	report(out, n, "everything", append(tools, spawn), full)
	reportPerAction(out, n, tools, spawn, full)
	floor, err := floorOf(tools[0], filepath.Join(filepath.Dir(compiler), "lstat"))
	if err != nil {
		return err
	}
	for _, t := range tools { // warm up: digest caches are written and logs compacted
		for range 2 {
			if _, err := t.run(ctx); err != nil {
				return err
			}
		}
	}
	nothing, err := inTurn(ctx, append(tools, floor), func(*treeTool, int) error { return nil })
	if err != nil {
		return err
	}
	report(out, n, "nothing", append(tools, floor), nothing)
	edit, err := inTurn(ctx, tools, func(t *treeTool, i int) error {
		return os.WriteFile(filepath.Join(t.dir, sourceName(n/2)), []byte(fmt.Sprintf("int edited_%d;\n", i)), 0o666)
	})
	if err != nil {
		return err
	}
	report(out, n, "one source", tools, edit)
	return nil
}

// inTurn runs the tools in turn. It calls prepare before each run.
func inTurn(ctx context.Context, tools []*treeTool, prepare func(t *treeTool, i int) error) (map[*treeTool][]cost, error) {
	all := map[*treeTool][]cost{}
	for i := range treeRuns {
		for k := range tools {
			t := tools[(i+k)%len(tools)]
			if err := prepare(t, i); err != nil {
				return nil, err
			}
			s, err := t.run(ctx)
			if err != nil {
				return nil, err
			}
			all[t] = append(all[t], s)
		}
	}
	return all, nil
}

// reportPerAction prints a tool's overhead per action: its CPU time minus that of the commands.
func reportPerAction(out io.Writer, n int, tools []*treeTool, spawn *treeTool, full map[*treeTool][]cost) {
	actions := n + (n+perLibrary-1)/perLibrary
	for _, t := range tools {
		over := full[t][0].cpu - full[spawn][0].cpu
		fmt.Fprintf(out, "| %d | an action, less its command | %s | | %.2f | |\n", n, t.name, float64(over.Microseconds())/1e3/float64(actions))
	}
}

// floorOf returns a program that only stats the sources and outputs of a built tree.
func floorOf(t *treeTool, program string) (*treeTool, error) {
	var names bytes.Buffer
	err := filepath.WalkDir(t.dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".kbuild":
			return filepath.SkipDir
		case !d.IsDir():
			rel, err := filepath.Rel(t.dir, name)
			names.WriteString(rel + "\x00")
			return err
		}
		return nil
	})
	list := t.dir + ".names"
	if err == nil {
		err = os.WriteFile(list, names.Bytes(), 0o666)
	}
	return &treeTool{name: "lstat of all files, in C", argv: []string{program, list}, dir: t.dir}, err
}

func (t *treeTool) run(ctx context.Context) (cost, error) {
	cmd := exec.CommandContext(ctx, t.argv[0], t.argv[1:]...)
	cmd.Dir, cmd.Env = t.dir, t.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	s := cost{wall: time.Since(start)}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(t.argv, " "), err, tail(out.String(), 1500))
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.rss = u.Maxrss << 10
	}
	return s, nil
}

// report prints medians with minimum and maximum, and the ratios to the first tool after kbuild.
func report(out io.Writer, n int, scenario string, tools []*treeTool, costs map[*treeTool][]cost) {
	wall := func(s cost) float64 { return float64(s.wall.Microseconds()) / 1e3 }
	cpu := func(s cost) float64 { return float64(s.cpu.Microseconds()) / 1e3 }
	rss := func(s cost) float64 { return float64(s.rss) / (1 << 20) }
	for i, t := range tools {
		var base []cost
		if i != 1 && len(tools) > 1 {
			base = costs[tools[1]]
		}
		fmt.Fprintf(out, "| %d | %s | %s | %s | %s | %s |\n", n, scenario, t.name,
			spread(costs[t], base, wall), spread(costs[t], base, cpu), spread(costs[t], base, rss))
	}
}

// spread formats "median (minimum to maximum), ratio".
func spread(costs, base []cost, of func(cost) float64) string {
	m, low, high := middle(costs, of)
	text := fmt.Sprintf("%.1f", m)
	if high > low {
		text += fmt.Sprintf(" (%.1f to %.1f)", low, high)
	}
	if b, _, _ := middle(base, of); b > 0 {
		text += fmt.Sprintf(", %.2fx", m/b)
	}
	return text
}

// middle returns the median, the minimum and the maximum.
func middle(costs []cost, of func(cost) float64) (median, low, high float64) {
	var v []float64
	for _, s := range costs {
		v = append(v, of(s))
	}
	slices.Sort(v)
	if len(v) == 0 {
		return 0, 0, 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, v[0], v[len(v)-1]
}
