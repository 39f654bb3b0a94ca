package toolkit

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// The paths of a toolkit are in command lines, in dependency files and in debug information, and so
// in keys and in cached outputs. The toolkit is installed below the user's cache, whose path
// differs between users. So builds use it through a link in /var/tmp, which has the same name
// everywhere. Two machines, or a developer and CI, then have the same keys.
//
// Any user may create files in /var/tmp. With the sticky bit, only their owner can replace them. A
// build uses the link if it is the user's own, and otherwise the path below the cache. It is the
// same build then, but with different keys.
//
// A user with two caches that contain the same toolkit has one link. Each build sets it to the
// toolkit of its own cache, perhaps during a build with the other cache.

// CommonDir is the folder of the links to toolkits.
const CommonDir = "/var/tmp"

// Use returns the path of Root for builds.
func (p *Pin) Use() (string, error) {
	root, err := p.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(filepath.Dir(root))
	link := p.name(dir)
	if p.Common == "" || !protected(p.Common) || !owned(link, dir) && !relink(link, dir) {
		return root, nil
	}
	return filepath.Join(link, filepath.Base(filepath.Dir(root)), filepath.Base(root)), nil
}

// name returns the path of the link to the folder of a toolkit.
func (p *Pin) name(dir string) string { return filepath.Join(p.Common, "kbuild-"+filepath.Base(dir)) }

// protected reports whether only their owner can replace files in a folder.
func protected(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && (info.Mode()&os.ModeSticky != 0 || info.Mode().Perm()&0o022 == 0)
}

// owned reports whether a link of this user leads to dir.
func owned(link, dir string) bool {
	info, err := os.Lstat(link)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	to, err := os.Readlink(link)
	return ok && int(st.Uid) == os.Geteuid() && err == nil && to == dir
}

// relink sets a link to dir. The sticky bit prevents that for the link of another user.
func relink(link, dir string) bool {
	tmp := fmt.Sprintf("%s.%d", link, os.Getpid())
	if os.Symlink(dir, tmp) != nil || os.Rename(tmp, link) != nil {
		os.Remove(tmp)
	}
	return owned(link, dir)
}
