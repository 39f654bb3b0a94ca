package execute

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// ended is the error of a command that a signal ended, or that got no memory: it says nothing of what the command was given.
type ended struct {
	text  string
	short bool // memory was
}

func (e *ended) Error() string { return e.text }

// exitError is nil for a process that ended well.
func exitError(out run.Result) error {
	const advice = `: build with a smaller -j or --mem, or give the target memory = "..."`
	grown := ""
	if out.MaxRSS > 0 {
		grown = fmt.Sprintf(" (it had grown to %d MiB)", out.MaxRSS>>20)
	}
	switch {
	case out.OOM:
		return &ended{"killed, most likely for memory" + grown + advice, true}
	case out.NoMemory:
		return &ended{"it got no memory" + grown + advice, true}
	case out.Signal != 0:
		return &ended{fmt.Sprintf("ended by signal %v", out.Signal), false}
	case out.Killed:
		return &ended{fmt.Sprintf("exit status %d: something that it ran was ended by a signal", out.ExitCode), false}
	case out.ExitCode == 127:
		return errors.New("exit status 127: a tool it runs was not found, or was given a command line longer than Linux allows")
	case out.ExitCode != 0:
		return fmt.Errorf("exit status %d", out.ExitCode)
	}
	return nil
}

// again makes ready for another time what failed because memory was short, and tells of that time if it went well.
func (r *Runner) again(a *graph.Action, p pending, res *sched.Result) {
	var e *ended
	res.Short = res.Status == sched.Failed && errors.As(res.Err, &e) && e.short
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case res.Short:
		r.pending[a.ID] = p
		if r.starved == nil {
			r.starved = map[graph.ActionID]bool{}
		}
		r.starved[a.ID] = true
	case r.starved[a.ID] && res.Status != sched.Failed:
		res.Output = append(res.Output, []byte("kbuild: "+a.Name+": memory was short; it was built again with nothing beside it\n")...)
	}
}

// diskFull reports a build tree without space: compilers say so in many ways, some of them misleading.
func (r *Runner) diskFull() bool {
	var st unix.Statfs_t
	return unix.Statfs(r.State, &st) == nil && st.Bavail*uint64(st.Bsize) < 16<<20 // what the failing command had written is gone by now
}
