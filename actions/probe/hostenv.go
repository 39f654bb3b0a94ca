package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// hostEnv is the host environment in one probing. It records what was observed, for the memo.
type hostEnv struct {
	ctx      context.Context
	observer *trace.Observer
	asked    map[string]bool             // absent paths, links, and folders that were listed
	digested map[string]bool             // files whose content was observed
	byStat   map[string]bool             // files that are large, or are observed as links
	digests  map[cache.Stat]cache.Digest // by file, independent of its name
	runs     map[string]find.Result      // by command
	libs     map[string]map[string]string
	libPath  string // LD_LIBRARY_PATH
	trouble  bool   // something failed that may succeed the next time
}

// newFinder returns a finder in a new environment.
func newFinder(ctx context.Context, r Request) (*find.Finder, *hostEnv) {
	h := newHostEnv(ctx, r.Env("LD_LIBRARY_PATH"))
	return &find.Finder{Host: h, Project: r.Root, Env: r.variables(), ForAMD: run.Names(run.AMD),
		PassOptions: run.Names(run.PassOptions), Covers: map[string][]string{}}, h
}

func newHostEnv(ctx context.Context, libPath string) *hostEnv {
	return &hostEnv{ctx: ctx, observer: trace.NewObserver("/", time.Now(), 0), asked: map[string]bool{},
		digested: map[string]bool{}, byStat: map[string]bool{}, digests: map[cache.Stat]cache.Digest{},
		runs: map[string]find.Result{}, libs: map[string]map[string]string{}, libPath: libPath}
}

// variables returns the environment variables that facts depend on.
func (r Request) variables() map[string]string {
	env := map[string]string{}
	if home := r.Env("HOME"); home != "" {
		env["HOME"] = home // clang may find configuration files there, now or later
	}
	for _, n := range run.Names(run.Probed | run.AMD) {
		env[n] = r.Env(n)
	}
	return env
}

// Stat implements find.Host.
func (h *hostEnv) Stat(name string) (f find.File, ok bool) {
	if !filepath.IsAbs(name) {
		return f, false
	}
	info, err := os.Stat(name)
	if err != nil {
		h.absent(name)
		return f, false
	}
	f.Real = realName(name)
	f.Program = !info.IsDir() && info.Mode()&0o111 != 0
	f.Script = f.Program && IsScript(name)
	if !f.Program && info.Mode().IsRegular() {
		h.byStat[name] = true // it may become a program
	}
	return f, true
}

// absent records an absent path, or the first absent folder on the way to it.
func (h *hostEnv) absent(name string) {
	dir, base := filepath.Split(name)
	for dir = strings.TrimRight(dir, "/"); dir != "" && !cache.Exists(dir); dir = strings.TrimRight(dir, "/") {
		dir, base = filepath.Split(dir)
	}
	// Behind a link, ".." is another folder than the path says.
	if clean := filepath.Clean(dir + "/"); realName(dir) == realName(clean) {
		dir = clean
	}
	if name = strings.TrimRight(dir, "/") + "/" + base; !h.asked[name] {
		h.asked[name] = true
		h.observer.Observe(cache.Observation{Path: name, Kind: cache.KindAbsent})
	}
}

// List implements find.Host.
func (h *hostEnv) List(dir string) (names []string) {
	if !filepath.IsAbs(dir) {
		return nil
	}
	dir = filepath.Clean(dir)
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && !h.asked[dir]:
		h.asked[dir] = true
		h.observer.Folder(dir, trace.NamesBut(dir, "", entries), "")
	case err != nil && cache.Exists(dir):
		h.byStat[dir] = true // no folder, or one of another user
	case err != nil:
		h.absent(dir)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Read implements find.Host.
func (h *hostEnv) Read(name string) ([]byte, error) {
	if _, ok := h.Stat(name); !ok {
		return nil, fs.ErrNotExist
	}
	text, err := regular.Read(name)
	h.note(err)
	if err == nil {
		_, err = h.digest(name)
	}
	return text, err
}

// Digest implements find.Host.
func (h *hostEnv) Digest(name string) (string, error) {
	d, err := h.digest(name)
	return d.String(), err
}

// oldDigests holds digests of files that are old enough for their stats to be trusted. The probes
// for CUDA and for HIP share host compilers and LLVM.
var oldDigests sync.Map

// digest returns the digest of a file's content. A file is read once under all its names: C and C++
// compilers share most of what they run, and clang is one program.
func (h *hostEnv) digest(name string) (d cache.Digest, err error) {
	began := time.Now()
	st, err := cache.StatFile(name)
	if err != nil {
		h.observer.Doubt() // it vanished
		return d, fmt.Errorf("reading a tool: %w", err)
	}
	d, known := h.digests[st]
	if old, ok := oldDigests.Load(st); ok && !known {
		d, known = old.(cache.Digest), true
	}
	if !known {
		if d, err = cache.DigestFile(name); err != nil {
			h.byStat[name] = true
			return d, fmt.Errorf("reading a tool: %w", err)
		}
		h.digests[st] = d
		if st.Before(began) {
			oldDigests.Store(st, d)
		}
	}
	switch {
	case h.digested[name]:
	case realName(name) != name:
		// A link may come to lead to an equal file beside which a tool finds other parts.
		h.byStat[name] = true
		if info, err := os.Stat(name); err == nil && info.Sys().(*syscall.Stat_t).Nlink > 1 {
			h.links(name) // it may even be the same file under another name
		}
	default:
		h.digested[name] = true
		h.observer.Text(name, d)
	}
	return d, nil
}

// links records the links on the way to a file.
func (h *hostEnv) links(name string) {
	for at, rest, n := "/", name, 0; rest != "" && n < 64; n++ {
		first, more, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		target, err := os.Readlink(filepath.Join(at, first))
		if err != nil {
			at, rest = filepath.Join(at, first), more
			continue
		}
		if link := filepath.Join(at, first) + cache.LeadsTo; !h.asked[link] {
			h.asked[link] = true
			st, _ := cache.StatFile(at)
			h.observer.Observe(cache.Observation{Path: at, Kind: cache.KindGuard, Stat: st,
				Absent: []string{first + cache.LeadsTo + target}})
		}
		if rest = target + "/" + more; filepath.IsAbs(target) {
			at = "/"
		}
	}
}

// mostDigested is the size above which a file that is in no fingerprint is observed by stat only,
// in bytes. libLLVM has a hundred megabytes, and a probe reads its header.
const mostDigested = 1 << 20

// reads records that a fact depends on a file, which is in no fingerprint, or on its absence.
func (h *hostEnv) reads(name string) {
	switch info, err := os.Stat(name); {
	case err != nil:
		h.absent(name)
	case info.Size() > mostDigested:
		h.byStat[name] = true
	default:
		h.digest(name) // if it fails, the probe cannot read the file either
	}
}

// observed returns the observations. ok is false if they are not known, or if something failed that
// may succeed the next time.
func (h *hostEnv) observed() (list []cache.Observation, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(h.byStat)) {
		if !h.digested[name] {
			h.observer.Observe(cache.Observation{Path: name, Kind: cache.KindFile})
		}
	}
	list, ok = h.observer.List()
	return list, ok && !h.trouble
}

// Run implements find.Host.
func (h *hostEnv) Run(c find.Command) find.Result {
	key := fmt.Sprintf("%#v", c)
	r, known := h.runs[key]
	if !known {
		env := append(os.Environ(), "LC_ALL=C", "NVCC_APPEND_FLAGS=", "NVCC_PREPEND_FLAGS=")
		r = runCommand(h.ctx, env, c)
		h.note(r.Err)
		h.runs[key] = r
	}
	return r
}

// runCommand runs commands in a new private folder, where no other user can place files that the
// program would find, and which is also the folder for its temporary files.
func runCommand(ctx context.Context, env []string, c find.Command) (r find.Result) {
	dir, err := makeTemp("kbuild-try-")
	if err != nil {
		return find.Result{Err: err}
	}
	defer os.RemoveAll(dir)
	for name, text := range c.Files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	for name, target := range c.Links {
		file := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o777), os.Symlink(target, file))
	}
	if err != nil {
		return find.Result{Err: err}
	}
	for _, argv := range append([][]string{c.Argv}, c.Then...) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, slices.Concat(env, c.Env, []string{"TMPDIR=" + dir})
		var out bytes.Buffer
		if cmd.Stdout = &out; !c.Stdout {
			cmd.Stderr = &out
		}
		r.Err = cmd.Run()
		r.Text = strings.ReplaceAll(strings.ReplaceAll(out.String(), dir+"/", ""), dir, "")
		if r.Ran++; r.Err != nil {
			break
		}
	}
	r.Files = map[string]string{}
	for _, name := range c.Outputs {
		if text, err := regular.Read(filepath.Join(dir, name)); err == nil {
			r.Files[name] = string(text)
		}
	}
	return r
}

// note records an error that is not the fault of the program that was run.
func (h *hostEnv) note(err error) { h.trouble = h.trouble || isTrouble(err) }

// isTrouble reports whether a failure may be temporary (no memory, no space, killed). A program
// that exited with an error status would fail again.
func isTrouble(err error) bool {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return false
	case errors.As(err, &exit):
		return !exit.Exited()
	}
	return true
}

// TempError reports that temporary files cannot be created. Any tool would then fail with an
// unrelated message.
type TempError struct{ Err error }

func (e TempError) Error() string {
	why := e.Err
	if path := new(fs.PathError); errors.As(why, &path) {
		why = path.Err
	}
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return fmt.Sprintf("TMPDIR is %s, where no temporary file can be made: %v. Unset it, or name a folder that you can write.", dir, why)
	}
	return fmt.Sprintf("no temporary file can be made in %s: %v. Set TMPDIR to a folder that you can write.", os.TempDir(), why)
}

func (e TempError) Unwrap() error { return e.Err }

// makeTemp creates a folder for temporary files. The error is a TempError.
func makeTemp(pattern string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", pattern); err != nil {
		return "", TempError{err}
	}
	return dir, nil
}

// checkTemp reports whether temporary files can be created. The error is a TempError.
func checkTemp() error {
	dir, err := makeTemp("kbuild-try-")
	if err == nil {
		os.Remove(dir)
	}
	return err
}

func realName(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return file
	}
	return real
}
