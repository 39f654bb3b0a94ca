package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// memoVersion must change when the memo's format or the probing changes.
const memoVersion = 21

// memo is the result of the last probing, with the files and paths that it observed. It is only a
// memo: in any doubt kbuild probes again.
type memo struct {
	Key    string
	Files  []stamp
	Absent []string
	Made   int64 // Unix ns
	Facts  plan.Facts
}

// stamp identifies a version of a file by its status.
type stamp struct {
	Path               string
	Dev, Ino           uint64
	Size, Mtime, Ctime int64
}

func stampOf(path string) (stamp, bool) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return stamp{}, false
	}
	return stamp{path, uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, true
}

// readMemo returns the memo in a file for a key; ok is false if the file is damaged.
func readMemo(file, key string) (m memo, ok bool) {
	sealed, _ := regular.Read(file)
	text, ok := unseal(key, sealed)
	ok = ok && json.Unmarshal(text, &m) == nil && m.Key == key
	return m, ok
}

func loadMemo(file, key string) (plan.Facts, bool) {
	m, ok := readMemo(file, key)
	if !ok {
		return plan.Facts{}, false
	}
	for _, s := range m.Files {
		now, ok := stampOf(s.Path)
		if !ok || now != s || s.Ctime > m.Made-int64(2*time.Second) {
			return plan.Facts{}, false // changed, or too recent to rule out a later change
		}
	}
	return m.Facts, !slices.ContainsFunc(m.Absent, exists)
}

// Observed returns the paths that r's answers depend on: files that must stay unchanged, and paths
// that must stay absent. ok is false if no valid memo of the tools exists. GPUs are not files, see
// GPUs.
func Observed(r Request, f plan.Facts) (all []cache.Observation, ok bool) {
	file, key := r.memo()
	m, ok := readMemo(file, key)
	if !ok {
		return nil, false
	}
	add := func(name string, kind cache.Kind) { all = append(all, cache.Observation{Path: name, Kind: kind}) }
	for _, s := range m.Files {
		if now, ok := stampOf(s.Path); !ok || now != s {
			return nil, false
		}
		add(s.Path, cache.KindFile)
	}
	for _, name := range m.Absent {
		add(name, cache.KindAbsent)
	}
	for _, l := range r.searched() {
		for _, d := range r.libDirs(l, f.CUDA) {
			for _, p := range libFiles(inside(r.Root, d), l.Name) {
				if exists(p) {
					add(p, cache.KindFile)
				} else {
					add(p, cache.KindAbsent)
				}
			}
		}
	}
	for _, p := range r.Prebuilt {
		if p = inside(r.Root, p); !exists(p) {
			return nil, false
		}
		add(p, cache.KindFile)
	}
	return all, true
}

// saveMemo is best effort: without the memo the next run probes again. A host environment without a
// required toolkit is not saved. A toolkit that is installed later is then found by any next run.
func saveMemo(file, key string, f plan.Facts, w *hostEnv) {
	if file == "" || w.trouble || w.req.NeedCUDA && f.CUDA == nil || w.req.NeedHIP && f.HIP == nil || w.req.NeedHIPHeaders && f.HIPHeaders == "" || f.CXX.Path == "" {
		return
	}
	m := memo{Key: key, Made: time.Now().UnixNano(), Facts: f}
	m.Files = slices.SortedFunc(maps.Values(w.read), func(a, b stamp) int { return strings.Compare(a.Path, b.Path) })
	m.Absent = slices.Sorted(maps.Keys(w.absent))
	text, err := json.Marshal(m)
	if err != nil {
		return
	}
	regular.Replace(file, seal(key, text))
}

// seal appends a checksum over the text and its subject. A memo that is damaged or belongs to
// another subject could name a wrong tool.
func seal(about string, text []byte) []byte {
	return fmt.Appendf(slices.Clip(text), "\n%x\n", sha256.Sum256(append([]byte(about+"\x00"), text...)))
}

// unseal is the reverse of seal. ok is false if any byte has changed.
func unseal(about string, sealed []byte) (text []byte, ok bool) {
	n := len(sealed) - len("\n\n") - 2*sha256.Size
	if n < 0 {
		return nil, false
	}
	return sealed[:n], bytes.Equal(seal(about, sealed[:n]), sealed)
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
	asked = slices.Sorted(maps.Keys(w.absent))
	for _, name := range slices.Sorted(maps.Keys(w.read)) {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			asked = append(asked, name)
		}
	}
	return w.covers, asked
}
