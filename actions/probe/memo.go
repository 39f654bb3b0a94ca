package probe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"github.com/kbuild-dev/kbuild/graph/plan"
)

// memoVersion changes when the memo or what is probed does.
const memoVersion = 3

// memo is what the last probing found and looked at. It is only a memo: any doubt, and the world is
// probed again.
type memo struct {
	Key    string
	Files  []stamp
	Absent []string
	Made   int64 // Unix ns
	Facts  plan.Facts
}

// stamp tells whether a file is the one that was read.
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

func loadMemo(file, key string) (plan.Facts, bool) {
	if file == "" {
		return plan.Facts{}, false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return plan.Facts{}, false
	}
	var m memo
	if json.Unmarshal(text, &m) != nil || m.Key != key {
		return plan.Facts{}, false
	}
	for _, s := range m.Files {
		now, ok := stampOf(s.Path)
		if !ok || now != s || s.Ctime > m.Made-int64(2*time.Second) {
			return plan.Facts{}, false // changed, or so young that a change could hide
		}
	}
	for _, p := range m.Absent {
		if exists(p) {
			return plan.Facts{}, false
		}
	}
	return m.Facts, true
}

// Looked are the paths that r's answers about the world depend on: files that must stay as they are, and paths that must stay
// absent. ok is false if that is not known: nothing was remembered of tools. GPUs are no files, see GPUs.
func Looked(r Request, f plan.Facts) (present, absent []string, ok bool) {
	file, key := r.memo()
	text, err := os.ReadFile(file)
	var m memo
	if err != nil || json.Unmarshal(text, &m) != nil || m.Key != key {
		return nil, nil, false
	}
	for _, s := range m.Files {
		if now, ok := stampOf(s.Path); !ok || now != s {
			return nil, nil, false
		}
		present = append(present, s.Path)
	}
	absent = m.Absent
	for _, l := range r.Libs {
		for _, d := range libDirs(l, f.CUDA) {
			for _, ext := range []string{".so", ".a"} {
				if p := filepath.Join(inside(r.Root, d), "lib"+l.Name+ext); exists(p) {
					present = append(present, p)
				} else {
					absent = append(absent, p)
				}
			}
		}
	}
	for _, p := range r.Prebuilt {
		if p = inside(r.Root, p); !exists(p) {
			return nil, nil, false
		}
		present = append(present, p)
	}
	return present, absent, true
}

// saveMemo is best effort: without it the next run probes again. A world without a toolkit is not
// remembered, so that one installed in whatever way is found at once.
func saveMemo(file, key string, f plan.Facts, w *world) {
	if file == "" || w.req.NeedCUDA && f.CUDA == nil || f.CXX.Path == "" {
		return
	}
	m := memo{Key: key, Made: time.Now().UnixNano(), Facts: f}
	for _, s := range w.read {
		m.Files = append(m.Files, s)
	}
	sort.Slice(m.Files, func(i, j int) bool { return m.Files[i].Path < m.Files[j].Path })
	for p := range w.absent {
		m.Absent = append(m.Absent, p)
	}
	sort.Strings(m.Absent)
	text, err := json.Marshal(m)
	if err != nil || os.MkdirAll(filepath.Dir(file), 0o777) != nil {
		return
	}
	replaceFile(file, text)
}

// replaceFile writes a file at once, or not at all.
func replaceFile(file string, text []byte) {
	tmp, err := os.CreateTemp(filepath.Dir(file), "new-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(text)
	if tmp.Close() != nil || err != nil || os.Rename(tmp.Name(), file) != nil {
		os.Remove(tmp.Name())
	}
}
