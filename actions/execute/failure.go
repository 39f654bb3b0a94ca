package execute

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
)

// ended is the error of a command that a signal ended, or that got no memory. It says nothing about
// the command's input.
type ended struct {
	text  string
	short bool // memory was short
}

func (e *ended) Error() string { return e.text }

// exitError returns nil for a process that succeeded.
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
		return &ended{fmt.Sprintf("exit status %d: something that it ran was ended by a signal",
			out.ExitCode), false}
	case out.ExitCode == 127:
		return errors.New("exit status 127: a tool it runs was not found, or was given a command " +
			"line longer than Linux allows")
	case out.ExitCode != 0:
		return fmt.Errorf("exit status %d", out.ExitCode)
	}
	return nil
}

// explainFailure adds what kbuild knows and the compiler does not: a generate block builds the
// missing header, and the target does not depend on it.
func (t *buildTree) explainFailure(a *graph.Action, printed string, err error) error {
	for line := range strings.SplitSeq(printed, "\n") {
		before, _, ok := strings.Cut(line, ": No such file or directory")
		if !ok {
			continue
		}
		name := before[strings.LastIndex(before, ": ")+1:]
		name = strings.TrimSpace(name)
		if g := t.generator(a, name); g != nil {
			return fmt.Errorf("%w: %s is made by %s (%s): add it to the deps of %s",
				err, name, g.Target, g.Pos, a.Target)
		}
	}
	return err
}

// diskFull reports whether the disk of the build tree is full. Compilers report that in many ways,
// some of them misleading.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	// the files of the failing command are gone by now
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < 16<<20
}
