package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A kbuild that is killed outright (kill -9, or by the kernel for memory) cannot end what it
// started. A compiler that goes on would write its output minutes later. It might overwrite the
// output of the next kbuild, which has newer sources and the same temporary name. So commands die
// with kbuild (Pdeathsig). The next kbuild that locks the build tree ends the processes that the
// commands had started themselves. Both kinds are identified by their TMPDIR, which is that of the
// build tree or a folder in it.

// orphanTries is the number of checks for processes that do not end, a few milliseconds apart.
const orphanTries = 1000

// EndOrphans kills the processes whose TMPDIR is dir or below it, and waits until they are gone.
// The caller holds the lock of the build tree, so they belong to no other kbuild.
func EndOrphans(dir string) error {
	for try := 0; ; try++ {
		pids := orphans(dir)
		if len(pids) == 0 {
			return nil
		}
		if try == orphanTries {
			return fmt.Errorf("commands of a kbuild that was killed still run in this build tree and cannot be ended (processes %v)", pids)
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Duration(min(try, 5)) * time.Millisecond)
	}
}

// IsCommand reports whether a command of the kbuild that works in dir started this process. dir is
// the folder for temporary files of a build tree.
func IsCommand(dir string) bool {
	top, err := os.Stat(dir)
	return err == nil && tempBelow([]byte("TMPDIR="+os.Getenv("TMPDIR")), top)
}

// orphans returns the processes with such a TMPDIR, as far as this process may read their
// environment. A process that has ended has no environment.
func orphans(dir string) (pids []int) {
	top, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if env, _ := os.ReadFile(f); err == nil && pid != os.Getpid() && tempBelow(env, top) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tempBelow reports whether an environment, as /proc shows it, has a TMPDIR that is a folder or
// below it, however it is spelled.
func tempBelow(env []byte, top os.FileInfo) bool {
	for e := range bytes.SplitSeq(env, []byte{0}) {
		name, ok := bytes.CutPrefix(e, []byte("TMPDIR=/"))
		if !ok {
			continue
		}
		for p := filepath.Clean("/" + string(name)); p != "/"; p = filepath.Dir(p) {
			if info, err := os.Stat(p); err == nil && os.SameFile(info, top) {
				return true
			}
		}
	}
	return false
}
