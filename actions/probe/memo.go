package probe

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// The facts of the tools are stored as a trace (cache/trace): they are remembered while all files,
// folders and absent paths that the probing observed are unchanged.

// memoVersion must change when the probing, or the type of the facts, changes.
const memoVersion = 23

// memo returns the file that remembers the answers, "" for none, and the key of all that they
// depend on besides files.
func (r Request) memo() (file string, key cache.Key) {
	env := map[string]string{}
	if home := r.Env("HOME"); home != "" {
		env["HOME"] = home // clang may find configuration files there, now or later
	}
	for _, n := range run.Names(run.Probed | run.AMD) {
		env[n] = r.Env(n)
	}
	root := ""
	if strings.Contains(r.Compiler+r.HostCompiler+r.HIPCompiler, "/") {
		root = r.Root // relative paths start there
	}
	b, _ := json.Marshal([]any{memoVersion, root, r.Compiler, r.HostCompiler, r.Version, r.NeedCUDA, r.HIPCompiler, r.HIPVersion, r.NeedAMD, r.NeedHIPHeaders, env})
	key = sha256.Sum256(b)
	if r.MemoPath == "" {
		return "", key
	}
	return fmt.Sprintf("%s/%s.trace", r.MemoPath, key), key
}

// remembered returns the facts of the tools as last probed, and what they were made from. ok is
// false if they must be probed again.
func (r Request) remembered() (f plan.Facts, observed []cache.Observation, ok bool) {
	file, key := r.memo()
	if file == "" {
		return f, nil, false
	}
	value, observed, ok := trace.Load(file, key, "/")
	if ok {
		ok = json.Unmarshal(value, &f) == nil
	}
	return f, observed, ok
}

// remember stores the facts and returns what they were made from, nil if that is not known. Facts
// without a required toolkit are not stored: a toolkit that is installed later is then found by any
// next run. Storing is best effort: without the memo the next run probes again.
func (w *hostEnv) remember(f plan.Facts) []cache.Observation {
	if w.trouble || w.doubt || w.req.NeedCUDA && f.CUDA == nil || w.req.NeedAMD && f.HIP == nil || w.req.NeedHIPHeaders && f.HIPHeaders == "" || f.CXX.Path == "" {
		return nil
	}
	o := trace.NewObserver("/", w.began, len(w.read)+len(w.absent))
	for name, digest := range w.read {
		switch {
		case w.folders[name]:
			o.Folder(name, digest, "")
		case digest.IsZero() || realName(name) != name:
			// A link may come to lead to an equal file beside which a tool finds other parts.
			o.Observe(cache.Observation{Path: name, Kind: cache.KindFile})
		default:
			o.Text(name, digest)
		}
	}
	for name := range w.absent {
		o.Observe(cache.Observation{Path: name, Kind: cache.KindAbsent})
	}
	observed, ok := o.List()
	if !ok {
		return nil
	}
	if file, key := w.req.memo(); file != "" {
		if value, err := json.Marshal(f); err == nil {
			trace.Save(file, key, value, observed)
		}
	}
	return observed
}

// mostDigested is the size above which a file that is in no fingerprint is observed by stat only,
// in bytes. libLLVM has a hundred megabytes, and a probe reads its header.
const mostDigested = 1 << 20

// reads records that an answer depends on a file or folder. A folder is observed by its names.
func (w *hostEnv) reads(name string) {
	if _, ok := w.read[name]; ok {
		return
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		w.doubt = true // it vanished
	case info.IsDir():
		entries, err := os.ReadDir(name)
		w.doubt = w.doubt || err != nil
		w.read[name], w.folders[name] = trace.NamesBut(name, "", entries), true
	case !info.Mode().IsRegular() || info.Size() > mostDigested:
		w.read[name] = cache.Digest{}
	default:
		w.digest(name) // if it fails, the probe cannot read the file either
	}
}

// cover records the files whose content is in a fingerprint. A text of a fingerprint may be another
// fingerprint: the toolkit's contains that of the host compiler.
func (w *hostEnv) cover(id string, parts map[string]string, texts []string) {
	for _, file := range parts {
		if file != "" {
			w.covers[id] = append(w.covers[id], file)
		}
	}
	for _, t := range texts {
		w.covers[id] = append(w.covers[id], w.covers[t]...)
	}
}

// Covered returns the files whose content is in the fingerprints of tools, by fingerprint. asked
// holds the watched paths: the tools are queried again when an absent one appears, or when a folder
// gets a new entry. Covered probes without the memo.
func Covered(ctx context.Context, r Request) (files map[string][]string, asked []string) {
	w := newHostEnv(ctx, r)
	w.collect()
	return w.covers, slices.Concat(slices.Sorted(maps.Keys(w.absent)), slices.Sorted(maps.Keys(w.folders)))
}
