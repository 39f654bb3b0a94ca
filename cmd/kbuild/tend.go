package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/cache/disk"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type fmtCmd struct {
	Check bool     `help:"Change nothing; exit 1 and name the files that are not formatted."`
	Files []string `arg:"" optional:"" help:"Files (default: kernels.hcl and kernels.local.hcl)."`
}

func (cmd fmtCmd) Run(c *cli) error {
	files := cmd.Files
	if len(files) == 0 {
		files = []string{c.manifestName()}
		if _, err := os.Lstat(filepath.Join(c.Dir, "kernels.local.hcl")); err == nil {
			files = append(files, "kernels.local.hcl")
		}
	}
	differ := false
	for _, f := range files {
		changed, err := c.format(f, cmd.Check)
		if err != nil {
			return err
		}
		differ = differ || changed
	}
	if cmd.Check && differ {
		return exitError{status: exitFailed}
	}
	return nil
}

// format rewrites one file, and names it on standard output if it changed.
func (c *cli) format(file string, check bool) (changed bool, err error) {
	name := file
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, file)
	}
	src, err := regular.ReadAtMost(name, manifest.MaxSource)
	if err != nil {
		return false, exitError{exitUsage, err}
	}
	out, diags := manifest.Format(src, file)
	if diags.HasErrors() {
		c.diagnose(diags)
		return false, exitError{status: exitUsage}
	}
	if bytes.Equal(src, out) {
		return false, nil
	}
	fmt.Fprintln(c.pathsOut(), file)
	if check {
		return true, nil
	}
	return true, writeFile(name, out)
}

type doctorCmd struct{}

// Run checks what a build needs; a manifest is not needed.
func (doctorCmd) Run(c *cli) error {
	dir, err := c.cacheDir()
	if err != nil {
		return err
	}
	r := probe.Request{Root: c.Dir, Env: os.Getenv, NeedCUDA: true, NeedNative: true}
	var misread func(plan.Facts) []string
	if _, err := os.Stat(filepath.Join(c.Dir, c.manifestName())); err == nil {
		if p, diags := manifest.Load(manifest.Options{Dir: c.Dir, File: c.File, Env: os.LookupEnv, Version: version}); !diags.HasErrors() {
			r = c.request(p)
			r.NeedCUDA, r.NeedNative, r.MemoPath = r.NeedCUDA || !r.NeedHIP, true, ""
			misread = func(f plan.Facts) (out []string) {
				for _, v := range c.verdicts(p, toolIdentity(f)) {
					out = append(out, c.explained(p, v))
				}
				return out
			}
		}
	}
	if !probe.Doctor(context.Background(), c.out, r, dir, misread) {
		return exitError{status: exitRequirement}
	}
	return nil
}

type cacheCmd struct {
	Stats  cacheStatsCmd  `cmd:"" help:"Show size, hits and time saved."`
	GC     cacheGCCmd     `cmd:"" name:"gc" help:"Remove what was not used for longest."`
	Verify cacheVerifyCmd `cmd:"" help:"Check every entry against its digest, and remove broken ones."`
	Export cacheExportCmd `cmd:"" help:"Write what the cache has of targets into one file."`
	Import cacheImportCmd `cmd:"" help:"Add such a file to the cache, if its tools are those of here."`
	Path   cachePathCmd   `cmd:"" help:"Show where the cache is."`
}

func (c *cli) store() (*disk.Store, error) {
	dir, err := c.cacheDir()
	if err != nil {
		return nil, err
	}
	return disk.Open(dir)
}

type cachePathCmd struct{}

func (cachePathCmd) Run(c *cli) error {
	dir, err := c.cacheDir()
	if err == nil {
		fmt.Fprintln(c.pathsOut(), dir)
	}
	return err
}

type cacheStatsCmd struct{}

func (cacheStatsCmd) Run(c *cli) error {
	store, err := c.store()
	if err != nil {
		return err
	}
	st, err := store.Stats(context.Background())
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.out).Encode(st)
	}
	n := st.Counters
	asked := n.Asked()
	fmt.Fprintf(c.out, "records      %d\nblobs        %d, %s\nasked        %d\ndirect hits  %d (%s)\nstage hits   %d (%s)\nmisses       %d (%s)\nrestored     %s\ntime saved   %v\n",
		st.Records, st.Blobs, size(st.Bytes), asked, n.Direct, percent(n.Direct, asked), n.Stage, percent(n.Stage, asked),
		n.Misses, percent(n.Misses, asked), size(n.Bytes), n.Saved.Round(time.Second))
	return nil
}

func percent(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

type cacheGCCmd struct {
	MaxSize sizeFlag      `placeholder:"SIZE" help:"Keep at most this much, for example 5GiB (default: $KBUILD_CACHE_SIZE, else 20GiB)."`
	MaxAge  time.Duration `placeholder:"DURATION" help:"Remove what was not used for this long, for example 720h."`
}

// cacheLimit is how large the cache may grow, in bytes.
func cacheLimit(getenv func(string) string) (int64, error) {
	const name = "KBUILD_CACHE_SIZE"
	text := getenv(name)
	if text == "" {
		return disk.DefaultLimit, nil
	}
	var size sizeFlag
	if err := size.UnmarshalText([]byte(text)); err != nil {
		return 0, usagef("%s: %v", name, err)
	}
	return size.budget(disk.DefaultLimit), nil
}

func (cmd cacheGCCmd) Run(c *cli) error {
	store, err := c.store()
	if err != nil {
		return err
	}
	limit, err := cacheLimit(os.Getenv)
	if err != nil {
		return err
	}
	res, err := store.GC(context.Background(), cmd.MaxSize.budget(limit), cmd.MaxAge)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(c.out).Encode(res)
	}
	fmt.Fprintf(c.out, "removed %d records and %d blobs, %s; %s are left\n", res.Records, res.Blobs, size(res.Freed), size(res.Bytes))
	c.sayOver(res)
	return nil
}

// sayOver tells of a collection that could not reach its limit.
func (c *cli) sayOver(res disk.GCResult) {
	if res.Over > 0 && !c.Quiet {
		c.say("kbuild: the cache is %s above its limit: what was written within the last hour may belong to a build that is running, and stays", size(res.Over))
	}
}

type cacheVerifyCmd struct {
	Rebuild bool     `help:"Run every action of the targets again, and compare what it makes with what it made."`
	Strace  bool     `help:"Also spelled --trace: run every command of the targets again under strace, and name what it read or looked for and no record has."`
	Targets []string `arg:"" optional:"" help:"Targets of --rebuild or --trace (default: what kbuild would build)."`
}

func (cmd cacheVerifyCmd) Run(c *cli) error {
	switch {
	case cmd.Rebuild && cmd.Strace:
		return usagef("cache verify takes --rebuild or --trace, not both")
	case cmd.Rebuild:
		return cmd.rebuild(c)
	case cmd.Strace:
		return cmd.retrace(c)
	case len(cmd.Targets) > 0:
		return usagef("cache verify checks the whole cache; targets are for --rebuild and --trace")
	}
	store, err := c.store()
	if err != nil {
		return err
	}
	broken := 0
	res, err := store.Verify(context.Background(), true, func(p disk.Problem) {
		broken++
		c.say("kbuild: %s: %v; removed", p.Path, p.Err)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%d records and %d blobs checked, %d broken\n", res.Records, res.Blobs, broken)
	if broken > 0 {
		return exitError{status: exitRequirement}
	}
	return nil
}
