package run

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
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
