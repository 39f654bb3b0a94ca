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
// where there is room, in a folder of the system that nobody else can enter or foresee. So a
// process that was left behind is known by it, see EndOrphans. The folder notes where the link is,
// so that whoever clears it away removes both.

// shortNote is the file that tells the folder of the link.
const shortNote = "short"

// maxBase is how long the path of the system's folder may be: with "/kb-1234567890/t/123456" it
// stays below 50.
const maxBase = 24

// plainBase is a folder that means the same in every folder and to the shells of nvcc, which expand
// $ and run what is in backquotes.
var plainBase = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z0-9._/-]*$`) })

// ShortTemp gives the absolute folder dir a short name for this run, "" if nothing can be written
// where one would be.
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
// is the name of this run, which may have lost the folder: the user removes build trees at any
// time.
func RemoveTemp(dir, short string) error {
	note, _ := os.ReadFile(filepath.Join(dir, shortNote))
	for _, private := range []string{string(note), filepath.Dir(short)} {
		if isShort(private) {
			os.Remove(filepath.Join(private, "t"))
			os.Remove(private) // not if it holds anything else
		}
	}
	return os.RemoveAll(dir)
}

// isShort tells a folder that ShortTemp has made. The note may be damaged.
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
