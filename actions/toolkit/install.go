package toolkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Toolkits are installed side by side, each in a folder named after the digests of its wheels:
//
//	TOOLKITS/lock                       held by the process that installs or removes
//	TOOLKITS/new-123/                   an installation in progress, or left by a killed kbuild
//	TOOLKITS/<digest>/wheels            its wheels, as in the lock file
//	TOOLKITS/<digest>/nvidia/cu13/      the toolkit
//
// pip verifies the digest of each wheel, and installs into a temporary folder. The folder of a
// digest is created by one rename, when it is complete.

const (
	temporary  = "new-"
	wheelsFile = "wheels"
)

// Install installs the toolkit of the lock file, unless it is installed, and returns its folder.
func (p *Pin) Install(ctx context.Context) (string, error) {
	wheels, err := p.wheels()
	if err != nil {
		return "", err
	}
	final := filepath.Join(p.Dir, folder(wheels))
	// Perhaps installed by a user with other permissions.
	if root, err := rootOf(final); err == nil {
		p.Say("CUDA " + p.Version + " is installed")
		return root, nil
	}
	lock, err := p.exclusive(ctx)
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if root, err := rootOf(final); err == nil { // by the process that held the lock
		return root, nil
	}
	tmp, err := os.MkdirTemp(p.Dir, temporary)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	p.Say(p.announce(wheels))
	made := filepath.Join(tmp, "toolkit")
	if err := p.fill(ctx, wheels, tmp, made); err != nil {
		return "", err
	}
	if err := os.Rename(made, final); err != nil {
		return "", err
	}
	return rootOf(final)
}

// announce returns the message before wheels are fetched. pip does not know their sizes in advance;
// the sizes for the compiler are estimates to about a fifth.
func (p *Pin) announce(wheels []Wheel) string {
	size, from := "105 to 130 MB to fetch, 280 to 370 MB on disk", "with pip"
	if p.Links != "" {
		size, from = "280 to 370 MB on disk", "from "+p.Links
	}
	if len(p.Parts) > 0 {
		size += ", and what " + strings.Join(p.Parts, ", ") + " take"
	}
	return fmt.Sprintf("installing CUDA %s %s: %d wheels, %s", p.Version, from, len(wheels), size)
}

// fill installs wheels into a new folder.
func (p *Pin) fill(ctx context.Context, wheels []Wheel, tmp, made string) error {
	pip, err := p.newPip(ctx, tmp)
	if err != nil {
		return err
	}
	var lines []string
	for _, w := range wheels {
		lines = append(lines, fmt.Sprintf("%s==%s --hash=sha256:%s\n", w.Name, w.Version, w.SHA256))
	}
	file := filepath.Join(tmp, "requirements")
	if err := regular.Replace(file, []byte(strings.Join(lines, ""))); err != nil {
		return err
	}
	args := []string{"install", "--no-deps", "--no-compile", "--no-warn-script-location", "--only-binary=:all:", "--require-hashes", "-r", file, "--target", made}
	if p.Terminal == nil {
		args = append(args, "--quiet")
	}
	if _, err := pip.run(ctx, slices.Concat(args, offline(p.Links))...); err != nil {
		return err
	}
	root, err := rootOf(made)
	if err != nil {
		return fmt.Errorf("the wheels hold no nvcc: %w", err)
	}
	if err := complete(root); err != nil {
		return err
	}
	l := lock{requirement(p.Version, p.Parts), wheels}
	return regular.Replace(filepath.Join(made, wheelsFile), []byte(l.text()))
}

// rootOf returns the folder of the toolkit below the folder where wheels were installed.
func rootOf(dir string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "nvidia"))
	for _, e := range entries {
		root := filepath.Join(dir, "nvidia", e.Name())
		if info, err := os.Stat(filepath.Join(root, "bin", "nvcc")); err == nil && info.Mode().IsRegular() {
			return root, nil
		}
	}
	if err == nil {
		err = fs.ErrNotExist
	}
	return "", err
}

// complete creates names that the wheels lack: lib64 (nvcc 13.0 and 13.1), nvvm/lib64/libnvvm.so
// (nvlink -dlto), and libX.so for each libX.so.N (linkers).
func complete(root string) error {
	links := map[string]string{"lib64": "lib"}
	libs, err := os.ReadDir(filepath.Join(root, "lib"))
	for _, lib := range libs {
		if name, _, ok := strings.Cut(lib.Name(), ".so."); ok {
			links["lib/"+name+".so"] = lib.Name()
			if name == "libnvvm" {
				links["nvvm/lib64/libnvvm.so"] = "../../lib/" + lib.Name()
			}
		}
	}
	for name, to := range links {
		file := filepath.Join(root, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o777))
		if e := os.Symlink(to, file); !errors.Is(e, fs.ErrExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// exclusive locks the folder of toolkits, and removes what a killed process has left.
func (p *Pin) exclusive(ctx context.Context) (*run.Lock, error) {
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("the folder of toolkits cannot be written: %w", err)
	}
	lock, err := run.AcquireLock(ctx, filepath.Join(p.Dir, "lock"), func(b *run.Busy) {
		p.Say("waiting for another kbuild that installs a toolkit" + b.Parenthesis())
	})
	if err != nil {
		return nil, fmt.Errorf("the folder of toolkits cannot be written: %w", err)
	}
	entries, err := os.ReadDir(p.Dir)
	for _, e := range entries {
		if dir := filepath.Join(p.Dir, e.Name()); strings.HasPrefix(e.Name(), temporary) {
			// A pip that still runs would write into it.
			err = errors.Join(err, run.EndOrphans(dir), os.RemoveAll(dir))
		}
	}
	if err != nil {
		lock.Release()
		return nil, err
	}
	return lock, nil
}

// Installed is an installed toolkit.
type Installed struct{ Name, Requirement, Root string }

// List returns the installed toolkits by name.
func (p *Pin) List() (list []Installed, err error) {
	entries, err := os.ReadDir(p.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		dir := filepath.Join(p.Dir, e.Name())
		text, _ := regular.Read(filepath.Join(dir, wheelsFile))
		l, notLock := parse(string(text))
		root, notToolkit := rootOf(dir)
		if notLock == nil && notToolkit == nil && !strings.HasPrefix(e.Name(), temporary) {
			list = append(list, Installed{e.Name(), l.requirement, root})
		}
	}
	return list, err
}

// Remove removes an installed toolkit. name is its name in List or a prefix of that. The toolkit is
// removed by one rename, so that a build finds it complete or not at all.
func (p *Pin) Remove(ctx context.Context, name string) error {
	list, err := p.List()
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(t Installed) bool { return name == "" || !strings.HasPrefix(t.Name, name) })
	if len(list) != 1 {
		return fmt.Errorf("%d toolkits are called %q; kbuild toolkit list shows them", len(list), name)
	}
	lock, err := p.exclusive(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	tmp, err := os.MkdirTemp(p.Dir, temporary)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.Dir, list[0].Name)
	if link := p.name(dir); p.Common != "" && owned(link, dir) {
		os.Remove(link)
	}
	if err := errors.Join(os.Rename(dir, filepath.Join(tmp, "toolkit")), os.RemoveAll(tmp)); err != nil {
		return err
	}
	p.Say("removed " + dir)
	return nil
}

// The user's own pip fetches and unpacks wheels, with its configured index, mirror and proxy.

// EnvPip names the environment variable with the pip command: "python3.12 -m pip".
const EnvPip = "KBUILD_PIP"

const installPip = "on Debian and Ubuntu: apt install python3-pip. Or name one: " + EnvPip + `="python3.12 -m pip"`

type pip struct {
	argv     []string
	dir      string   // an empty working directory: python first looks for modules there
	env      []string // complete
	terminal *os.File // shows pip's own progress; may be nil
}

// newPip finds pip. It writes only below tmp.
func (p *Pin) newPip(ctx context.Context, tmp string) (*pip, error) {
	made := &pip{dir: filepath.Join(tmp, "cwd"), terminal: p.Terminal}
	for _, dir := range []string{made.dir, filepath.Join(tmp, "tmp")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	// Override settings that contradict --target or prompt the user.
	made.env = append(os.Environ(), "PIP_USER=0", "PIP_REQUIRE_VIRTUALENV=0", "PIP_ROOT_USER_ACTION=ignore", "PIP_NO_INPUT=1",
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "LC_ALL=C.UTF-8", "TMPDIR="+filepath.Join(tmp, "tmp"))
	if named := os.Getenv(EnvPip); named != "" {
		argv, err := toolchain.ShellWords(named, nil)
		if err != nil || len(argv) == 0 {
			return nil, fmt.Errorf("%s is %q, which is no command", EnvPip, named)
		}
		if strings.Contains(argv[0], "/") { // pip has another working directory
			if argv[0], err = filepath.Abs(argv[0]); err != nil {
				return nil, err
			}
		}
		made.argv = argv
		return made, nil
	}
	return made, made.find(ctx, filepath.Join(tmp, "venv"))
}

// find selects the pip of python3. A python without pip may be able to install one into a virtual
// environment; Debian has a separate package for that.
func (p *pip) find(ctx context.Context, venv string) error {
	works := func(argv ...string) bool {
		res, err := run.Run(ctx, run.Command{Argv: argv, Dir: p.dir, Env: p.env})
		return err == nil && res.ExitCode == 0
	}
	p.argv = []string{"python3", "-m", "pip"}
	switch {
	case works("python3", "-m", "pip", "--version"):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !works("python3", "--version"):
		return errors.New("there is no python3, whose pip fetches the toolkit. Install it, " + installPip)
	case works("python3", "-m", "venv", venv):
		p.argv = []string{filepath.Join(venv, "bin", "python3"), "-m", "pip"}
		return nil
	}
	return errors.New("python3 has no pip, which fetches the toolkit. Install it, " + installPip)
}

// run runs pip. A terminal shows pip's own progress. It returns its stderr, which is also part of the error if
// pip fails.
func (p *pip) run(ctx context.Context, args ...string) (complaints string, err error) {
	res, err := run.Run(ctx, run.Command{Argv: slices.Concat(p.argv, args), Dir: p.dir, Env: p.env, Stdout: p.terminal})
	complaints = strings.TrimSpace(string(res.Output))
	switch {
	case err != nil:
		return complaints, err
	case strings.Contains(complaints, "no such option: --report") || strings.Contains(complaints, "no such option: --dry-run"):
		return complaints, fmt.Errorf("this pip is too old: locking needs pip 22.2 (installing does not). Name another: %s=\"python3.12 -m pip\"", EnvPip)
	case res.ExitCode != 0:
		return complaints, fmt.Errorf("%s ended with status %d:\n%s", strings.Join(p.argv, " "), res.ExitCode, complaints)
	}
	return complaints, nil
}
