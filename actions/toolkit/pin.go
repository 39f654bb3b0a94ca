package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Pin is a toolkit that a manifest pins.
type Pin struct {
	Manifest string // name of the manifest, for messages
	File     string // argument of -f that names it; "" for the default
	LockFile string // path of the lock file
	Text     []byte // content of the lock file; nil if it does not exist
	Dir      string // where toolkits are installed
	// Common is the folder of links that are the same for all users: CommonDir. It is "" if Dir is
	// the same for all users.
	Common   string
	Version  string // "13.5.0"
	Parts    []string
	Links    string // a folder with wheels that pip uses instead of an index; ""
	Say      func(line string)
	Terminal *os.File // shows pip's own progress; may be nil
}

// NotReady reports why a pinned toolkit cannot be used, and which command fixes it.
type NotReady struct{ Why, Command string }

func (e NotReady) Error() string { return e.Why + ". Run: " + e.Command }

// notReady returns a NotReady whose command names the manifest as the current command does.
func (p *Pin) notReady(verb, why string, args ...any) NotReady {
	command := "kbuild toolkit " + verb
	if p.File != "" {
		command += " -f " + toolchain.ShellWord(p.File)
	}
	return NotReady{fmt.Sprintf(why, args...), command}
}

// Root returns the folder of the installed toolkit. If it cannot be used the error is a NotReady.
func (p *Pin) Root() (string, error) {
	wheels, err := p.wheels()
	if err != nil {
		return "", err
	}
	root, err := rootOf(filepath.Join(p.Dir, folder(wheels)))
	if err != nil {
		return "", p.notReady("install", "CUDA %s of %s is not installed", p.Version, filepath.Base(p.LockFile))
	}
	return root, nil
}

// wheels returns the wheels that the lock file names for this machine.
func (p *Pin) wheels() ([]Wheel, error) {
	name := filepath.Base(p.LockFile)
	if p.Text == nil {
		return nil, p.notReady("lock", "there is no %s, which says what CUDA %s consists of", name, p.Version)
	}
	l, err := parse(string(p.Text))
	if err != nil {
		return nil, p.notReady("lock", "%s: %v", name, err)
	}
	if want := requirement(p.Version, p.Parts); l.requirement != want {
		return nil, p.notReady("lock", "%s is of %s, and %s wants %s", name, l.requirement, p.Manifest, want)
	}
	wheels := l.of(thisMachine())
	if err := check(wheels, p.Version); err != nil {
		return nil, p.notReady("lock", "%s names no toolkit for %s: %v", name, thisMachine(), err)
	}
	return wheels, nil
}

// Lock queries pip for the wheels of the toolkit, without fetching them, and writes the lock file.
// The file covers each kind of machine that the index has wheels for, and at least the local one.
func (p *Pin) Lock(ctx context.Context) error {
	tmp, err := os.MkdirTemp("", "kbuild-lock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	pip, err := p.newPip(ctx, tmp)
	if err != nil {
		return err
	}
	l := &lock{requirement: requirement(p.Version, p.Parts)}
	for _, machine := range machines {
		wheels, err := pip.resolve(ctx, l.requirement, machine, p.Links)
		if err == nil {
			err = check(wheels, p.Version)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			l.wheels = append(l.wheels, wheels...)
		case machine != thisMachine() && strings.Contains(err.Error(), "No matching distribution"):
			p.Say(fmt.Sprintf("warning: the lock is not for %s: %v", machine, err))
		default:
			return fmt.Errorf("asking pip for %s on %s: %w", l.requirement, machine, err)
		}
	}
	if err := regular.Replace(p.LockFile, []byte(l.text())); err != nil {
		return err
	}
	p.Say(fmt.Sprintf("wrote %s: CUDA %s, %d wheels", p.LockFile, p.Version, len(l.wheels)))
	return nil
}

// report is the relevant part of pip's installation report.
type report struct {
	Install []struct {
		Metadata struct{ Name, Version string } `json:"metadata"`
		Download struct {
			Archive struct {
				Hash   string            `json:"hash"` // "sha256=..."
				Hashes map[string]string `json:"hashes"`
			} `json:"archive_info"`
		} `json:"download_info"`
	} `json:"install"`
}

// resolve returns the wheels that pip would install for a machine.
func (p *pip) resolve(ctx context.Context, requirement, machine, links string) ([]Wheel, error) {
	file := filepath.Join(p.dir, machine+".json")
	args := []string{"install", "--dry-run", "--ignore-installed", "--quiet", "--report", file, "--only-binary=:all:",
		"--platform", "manylinux2014_" + machine, "--platform", "manylinux_2_28_" + machine, "--target", filepath.Join(p.dir, "target")}
	complaints, err := p.run(ctx, slices.Concat(args, offline(links), []string{requirement})...)
	if err != nil {
		return nil, err
	}
	if strings.Contains(complaints, "does not provide the extra") {
		return nil, errors.New(complaints)
	}
	text, err := regular.Read(file)
	if err != nil {
		return nil, fmt.Errorf("pip wrote no report: %w", err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading pip's report: %w", err)
	}
	var wheels []Wheel
	for _, i := range r.Install {
		sum, ok := i.Download.Archive.Hashes["sha256"]
		if !ok {
			sum = strings.TrimPrefix(i.Download.Archive.Hash, "sha256=")
		}
		w := Wheel{machine, strings.ToLower(i.Metadata.Name), i.Metadata.Version, sum}
		if !wheelRE().MatchString(w.line()) {
			return nil, fmt.Errorf("the index gives no sha256 of %s %s", w.Name, w.Version)
		}
		wheels = append(wheels, w)
	}
	slices.SortFunc(wheels, func(a, b Wheel) int { return strings.Compare(a.Name, b.Name) })
	return wheels, nil
}

// offline returns pip's options to use only wheels of a folder.
func offline(links string) []string {
	if links == "" {
		return nil
	}
	return []string{"--no-index", "--find-links", links}
}

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
