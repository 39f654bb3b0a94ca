package toolkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

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
