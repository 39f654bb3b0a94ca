// Command kbench compares kbuild with ninja, make, ninja with ccache and ninja with sccache. It
// generates a CUDA project of a dozen sources, and measures wall time, CPU time and processes, edit
// by edit. It knows the tools' command lines, and nothing of kbuild's internals.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// options is the parsed and checked command line.
type options struct {
	tools     []string
	variants  []variant
	scenarios []scenario
	archs     []string
	add       string
	jobs      int
	sources   int
	kbuild    string
	toolkit   string // a folder with bin/nvcc; "" means the nvcc of PATH
	ccbin     string
	dir       string
	count     bool
	markdown  bool
	sha, sass bool
	keep      bool
	trees     []int    // tree sizes; nil measures the CUDA project
	ninjas    []string // programs to compare trees with, ninja or similar first
}

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if err == flag.ErrHelp {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kbench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kbench:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("kbench", flag.ContinueOnError)
	f.SetOutput(usage)
	tools := f.String("tools", strings.Join(toolNames, ","), "tools to compare")
	variants := f.String("variants", "lto,rdc,cub-lto,cub-rdc", "kinds of project")
	wanted := f.String("scenarios", "", "scenarios, in order; cold always runs first (default: all)")
	archs := f.String("archs", "sm_70,sm_80,sm_90", "architectures; the scenario remove drops the first")
	f.StringVar(&o.add, "add", "sm_86", "the architecture that the scenario add adds")
	f.IntVar(&o.jobs, "j", 2, "processes at once")
	f.IntVar(&o.sources, "sources", len(sourceNames), "number of CUDA sources, at least 2")
	f.StringVar(&o.kbuild, "kbuild", "kbuild", "the kbuild to measure")
	f.StringVar(&o.toolkit, "toolkit", "", "folder of the CUDA toolkit (default: the nvcc of PATH)")
	f.StringVar(&o.ccbin, "ccbin", "g++-11", "nvcc's host compiler; kbuild chooses for itself, kbuild doctor says which")
	f.StringVar(&o.dir, "dir", "", "folder for trees and caches (default: a temporary one, removed at the end)")
	f.BoolVar(&o.keep, "keep", false, "keep the temporary folder")
	f.BoolVar(&o.count, "count", false, "count processes too, with strace, in runs of their own")
	f.BoolVar(&o.markdown, "md", false, "print Markdown, with ratios to ninja")
	f.BoolVar(&o.sha, "sha", false, "compare kbuild's executables of two clones, and nothing else")
	f.BoolVar(&o.sass, "sass", false, "compare the SASS of kbuild's executable with ninja's, and nothing else")
	trees := f.String("trees", "", "measure the tools alone, on trees of so many trivial compiles, for example 1000,10000,100000")
	ninjas := f.String("ninjas", "ninja", "what to compare trees with: programs that read build.ninja, by name or path, and make")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.ninjas = split(*ninjas)
	for _, n := range split(*trees) {
		size, err := strconv.Atoi(n)
		if err != nil || size < 1 {
			return nil, fmt.Errorf("-trees: %q is no number of compiles", n)
		}
		o.trees = append(o.trees, size)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.sources < 2 || o.sources > len(sourceNames) {
		return nil, fmt.Errorf("-sources is 2 to %d", len(sourceNames))
	}
	o.tools, o.archs = split(*tools), split(*archs)
	for _, t := range o.tools {
		if !slices.Contains(toolNames, t) {
			return nil, fmt.Errorf("no tool %q; there are %s", t, strings.Join(toolNames, ", "))
		}
	}
	for _, a := range append(o.archs, o.add) {
		if !strings.HasPrefix(a, "sm_") {
			return nil, fmt.Errorf("architecture %q is not sm_NN", a)
		}
	}
	var err error
	if o.variants, err = variantsNamed(split(*variants)); err != nil {
		return nil, err
	}
	o.scenarios, err = scenariosNamed(split(*wanted))
	return o, err
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// run runs the benchmarks in o. All trees and caches are below one folder.
func run(ctx context.Context, o *options, out io.Writer) error {
	if err := locate(o); err != nil {
		return err
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "kbench-")
		if err != nil {
			return err
		}
		o.dir = dir
		if !o.keep {
			defer os.RemoveAll(dir)
		}
	}
	printVersions(o, out)
	if o.trees != nil {
		return benchTrees(ctx, o, out)
	}
	for _, v := range o.variants {
		var err error
		switch {
		case o.sha:
			err = compareClones(ctx, o, v, out)
		case o.sass:
			err = compareSASS(ctx, o, v, out)
		default:
			err = bench(ctx, o, v, out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

// locate makes the tools' paths absolute, since every run has its own working directory.
func locate(o *options) (err error) {
	for _, p := range []*string{&o.dir, &o.toolkit} {
		if *p == "" {
			continue
		}
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	if slices.Contains(o.tools, "kbuild") || o.sha || o.sass {
		path, err := exec.LookPath(o.kbuild)
		if err != nil {
			return err
		}
		if o.kbuild, err = filepath.Abs(path); err != nil {
			return err
		}
	}
	return nil
}

// bench measures all scenarios of one variant and prints the table. Within a scenario the tools
// take turns. A signal cuts the table short.
func bench(ctx context.Context, o *options, v variant, out io.Writer) error {
	lanes, err := openLanes(o, v)
	defer closeLanes(lanes)
	if err != nil {
		return err
	}
	t := &table{variant: v}
	for i, s := range o.scenarios {
		for k := range lanes {
			l := lanes[(i+k)%len(lanes)] // rotate, so that no tool is always first
			m := l.measure(ctx, s)
			if ctx.Err() != nil {
				t.print(out, o)
				return fmt.Errorf("stopped in %s", s.title)
			}
			t.add(s, l, m)
			fmt.Fprintf(os.Stderr, "kbench: %s: %s: %s\n", v.name, s.title, l.describe(m))
		}
	}
	t.print(out, o)
	return t.verdict()
}
