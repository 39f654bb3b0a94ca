package engine

import (
	"os"
	"path/filepath"

	"github.com/kbuild-dev/kbuild/actions/probe"
	"github.com/kbuild-dev/kbuild/actions/toolkit"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// EnvToolkits names the environment variable that moves the folder where toolkits are installed.
const EnvToolkits = "KBUILD_TOOLKITS"

// Toolkits returns a Pin with the folder where pinned toolkits are installed. It is in the folder
// of the cache, unless the user names another.
func (w *Workspace) Toolkits() (*toolkit.Pin, error) {
	if dir := w.Env.Get(EnvToolkits); dir != "" {
		if !filepath.IsAbs(dir) {
			return nil, usagef("%s is %q: it must be an absolute path", EnvToolkits, dir)
		}
		return &toolkit.Pin{Dir: filepath.Clean(dir), Say: w.UI.Say}, nil
	}
	dir, err := w.ActionCache()
	return &toolkit.Pin{Dir: filepath.Join(dir, "toolkits"), Common: toolkit.CommonDir, Say: w.UI.Say}, err
}

// Pin returns the toolkit that a manifest pins, or an error if it pins none.
func (w *Workspace) Pin(p *manifest.Project) (*toolkit.Pin, error) {
	tc := p.Toolchains["cuda"]
	if !tc.Pinned {
		return nil, usagef(`%s pins no toolkit. Its toolchain "cuda" needs from = "pypi" and, for example, version = "13.5.0"`, p.File)
	}
	pin, err := w.Toolkits()
	if err == nil {
		pin.Manifest, pin.File, pin.Version, pin.Parts = p.File, w.Manifest.File, tc.Version, tc.Parts
		pin.LockFile, pin.Text = filepath.Join(p.Root, tc.LockFile), p.Text(tc.LockFile)
	}
	return pin, err
}

// toolkit sets where the CUDA toolkit of a manifest is. Builds do not install one. If a pinned
// toolkit is missing, the error of the probe says what to do.
func (w *Workspace) toolkit(p *manifest.Project, r *probe.Request) {
	tc := p.Toolchains["cuda"]
	if tc.Path != "" {
		r.Compiler, r.MissingOf, r.Missing = tc.Path+"/bin/nvcc", "path", "path is the folder of a CUDA toolkit, and there is no "+tc.Path+"/bin/nvcc."
	}
	if !tc.Pinned {
		return
	}
	r.Accepts = nil // if the lock file does not fit the version, there is no root
	root := ""
	pin, err := w.Pin(p)
	if err == nil {
		root, err = pin.Use()
	}
	if r.Compiler = filepath.Join(root, "bin", "nvcc"); err != nil {
		// not a program, so that the one in PATH is not used either
		r.Compiler, r.MissingOf, r.Missing = os.DevNull, "from", err.Error()
	}
}
