package toolkit

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// The paths of a toolkit are in command lines, in dependency files and in debug information, and so
// in keys and in what is cached. It is installed below the user's cache, whose path differs from
// user to user. So builds use it by a name that is the same everywhere: a link in /var/tmp. Two
// machines, or a developer and CI, then have the same keys.
//
// Anybody may make files in /var/tmp. With the sticky bit, only their owner can replace them: a
// link is used if it is the user's own, and the path below the cache if that cannot be had. The
// build is the same then, under keys of its own.
//
// A user with two caches that have one toolkit has one link, which each build turns to the toolkit
// of its own cache. It may do so while a build of the other cache runs, and compile_commands.json
// keeps the name for as long as it likes: when the toolkit is removed from one cache, the link goes
// back to that of the other, without a moment in which it is not there.

// CommonDir is where names of toolkits are that are the same for all.
const CommonDir = "/var/tmp"

// Use is Root under a name for builds.
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

// otherFile says in the folder of a toolkit where the link led before it led there.
const otherFile = "other"

// unlink removes the link to the folder of a toolkit that will be removed.
func (p *Pin) unlink(dir string) {
	link := p.name(dir)
	if p.Common == "" || !owned(link, dir) {
		return
	}
	if other, err := regular.Read(filepath.Join(dir, otherFile)); err == nil && sameToolkit(string(other), dir) && relink(link, string(other)) {
		return
	}
	os.Remove(link)
}

// sameToolkit reports another folder with the toolkit of dir.
func sameToolkit(other, dir string) bool {
	_, err := rootOf(other)
	return err == nil && other != dir && filepath.Base(other) == filepath.Base(dir)
}

// name is the name of the folder of a toolkit that is the same for all.
func (p *Pin) name(dir string) string { return filepath.Join(p.Common, "kbuild-"+filepath.Base(dir)) }

// protected reports that nobody but their owner can replace files in a folder.
func protected(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && (info.Mode()&os.ModeSticky != 0 || info.Mode().Perm()&0o022 == 0)
}

// owned reports that a link of this user leads to dir.
func owned(link, dir string) bool {
	info, err := os.Lstat(link)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	to, err := os.Readlink(link)
	return ok && int(st.Uid) == os.Geteuid() && err == nil && to == dir
}

// relink makes a link lead to dir. Where another user has it, the sticky bit forbids that.
func relink(link, dir string) bool {
	tmp := fmt.Sprintf("%s.%d", link, os.Getpid())
	if other, err := os.Readlink(link); err == nil && owned(link, other) && sameToolkit(other, dir) {
		regular.Replace(filepath.Join(dir, otherFile), []byte(other)) // without it the other build tree plans anew
	}
	if os.Symlink(dir, tmp) != nil || os.Rename(tmp, link) != nil {
		os.Remove(tmp)
	}
	return owned(link, dir)
}
