package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Tools get a short TMPDIR, whatever the path of the build tree is: nvlink 11.8 dies of one with 54
// characters, and a socket has room for 108. It is a symbolic link to the folder in the build tree,
// which has enough space. The link is in a folder of the system that no other user can enter or
// foresee. So it identifies a process that was left behind, see EndOrphans. A note in the folder
// names the link, so that a process that removes the folder removes both.

// shortNote is the file that names the folder of the link.
const shortNote = "short"

// maxBase is the maximal length of the path of the system's folder: with "/kb-1234567890/t/123456"
// it stays below 50.
const maxBase = 24

// plainBase matches an absolute folder without characters that the shells of nvcc expand or run,
// such as $ and backquotes.
var plainBase = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z0-9._/-]*$`) })

// ShortTemp returns a short name of the absolute folder dir for this run, or "" if it can write no
// link.
func ShortTemp(dir string) string {
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		if len(base) > maxBase || !plainBase().MatchString(base) {
			continue
		}
		private, err := os.MkdirTemp(base, "kb-") // 0700
		if err != nil {
			continue
		}
		link := filepath.Join(private, "t")
		if os.Symlink(dir, link) == nil && os.WriteFile(filepath.Join(dir, shortNote), []byte(private), 0o666) == nil {
			return link
		}
		os.Remove(link)
		os.Remove(private)
	}
	return ""
}

// RemoveTemp removes a folder for temporary files with all that is in it, and its short name. short
// is the name of this run. The folder with the note may be gone: the user removes build trees at
// any time.
func RemoveTemp(dir, short string) error {
	note, _ := os.ReadFile(filepath.Join(dir, shortNote))
	for _, private := range []string{string(note), filepath.Dir(short)} {
		if isShort(private) {
			os.Remove(filepath.Join(private, "t"))
			os.Remove(private) // fails if it holds anything else
		}
	}
	return os.RemoveAll(dir)
}

// isShort reports whether ShortTemp has created a folder. The note may be damaged.
func isShort(private string) bool {
	if !filepath.IsAbs(private) || !strings.HasPrefix(filepath.Base(private), "kb-") {
		return false
	}
	folder, err := os.Lstat(private)
	if err != nil || !folder.IsDir() || folder.Mode().Perm() != 0o700 {
		return false
	}
	owner, ok := folder.Sys().(*syscall.Stat_t)
	link, err := os.Lstat(filepath.Join(private, "t"))
	return ok && int(owner.Uid) == os.Getuid() && err == nil && link.Mode()&os.ModeSymlink != 0
}

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
