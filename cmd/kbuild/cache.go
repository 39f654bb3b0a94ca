package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kbuild-dev/kbuild/actions/engine"
	"github.com/kbuild-dev/kbuild/graph"
)

type cacheCmd struct {
	Stats  cacheStatsCmd  `cmd:"" json:"" help:"Show size, hits and time saved."`
	GC     cacheGCCmd     `cmd:"" json:"" name:"gc" help:"Remove what was not used for longest."`
	Verify cacheVerifyCmd `cmd:"" json:"" help:"Check every entry against its digest, and remove broken ones."`
	Export cacheExportCmd `cmd:"" json:"" help:"Write what the cache has of targets into one file."`
	Import cacheImportCmd `cmd:"" json:"" help:"Add the entries of such a file to the cache, if they were made with the tools of this machine."`
	Path   cachePathCmd   `cmd:"" help:"Show where the cache is."`
}

type cachePathCmd struct{}

func (cachePathCmd) Run(c *cli) error {
	dir, err := c.workspace().ActionCache()
	if err == nil {
		fmt.Fprintln(c.out.Paths(), dir)
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
	n := st.Counters
	asked, local := n.Asked(), n.Hits()-n.Remote
	return c.print(st, "records      %d\nblobs        %d, %s\ncommands     %d\nlookups      %d\ndirect hits  %d (%s)\nstage hits   %d (%s)\nmisses       %d (%s)\nrestored     %s\ntime saved   %v\n"+
		"local hits   %d (%s)\nremote hits  %d (%s)\nreceived     %s\nsent         %s\n",
		st.Records, st.Blobs, engine.Size(st.Bytes), st.Commands, asked, n.Direct, percent(n.Direct, asked), n.Stage, percent(n.Stage, asked),
		n.Misses, percent(n.Misses, asked), engine.Size(n.Bytes), n.Saved.Round(time.Second),
		local, percent(local, asked), n.Remote, percent(n.Remote, asked), engine.Size(n.Received), engine.Size(n.Sent))
}

func percent(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

type cacheGCCmd struct {
	MaxSize sizeFlag      `placeholder:"SIZE" help:"Keep at most this much, for example 5GiB (default: $KBUILD_CACHE_SIZE, else 20GiB)."`
	MaxAge  time.Duration `placeholder:"DURATION" help:"Remove what was not used for this long, for example 720h."`
}

func (cmd cacheGCCmd) Run(c *cli) error {
	store, err := c.store()
	if err != nil {
		return err
	}
	limit, err := cacheSize()
	if err != nil {
		return err
	}
	res, err := store.GC(context.Background(), cmd.MaxSize.budget(limit), cmd.MaxAge)
	if err != nil {
		return err
	}
	err = c.print(res, "removed %s, %s and %s, %s; %s are left\n",
		graph.Count(res.Records, "record"), graph.Count(res.Blobs, "blob"),
		graph.Count(res.Commands, "command"), engine.Size(res.Freed), engine.Size(res.Bytes))
	if !c.JSON {
		c.workspace().SayOver(res)
	}
	return err
}
