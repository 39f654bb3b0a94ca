package machine

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// groups are the folders where the control groups are that this process is in, the innermost first,
// for a controller: of version 2, and of version 1. A machine may have both. Not every folder has
// files of the controller.
func groups(root, controller string) []string {
	var dirs []string
	for _, m := range mounts(root) {
		inner, ok := m.member(root, controller)
		if !ok {
			continue
		}
		for ; inner != "."; inner = path.Dir(inner) {
			dirs = append(dirs, filepath.Join(root, m.point, inner))
		}
		dirs = append(dirs, filepath.Join(root, m.point))
	}
	return dirs
}

// mount is a file system of control groups.
type mount struct {
	top   string // the group that stands at its point
	point string // where it is
	first bool   // of version 1, for some controllers; else of version 2
}

// mounts reads /proc/self/mountinfo:
//
//	35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
func mounts(root string) []mount {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	var all []mount
	for line := range strings.Lines(string(text)) {
		place, kind, _ := strings.Cut(line, " - ")
		p := strings.Fields(place)
		kind, _, _ = strings.Cut(kind, " ")
		if len(p) >= 5 && (kind == "cgroup" || kind == "cgroup2") {
			all = append(all, mount{top: p[3], point: p[4], first: kind == "cgroup"})
		}
	}
	return all
}

// member finds this process in /proc/self/cgroup: "0::/user.slice" for version 2,
// "4:cpu,cpuacct:/build" for version 1. inner is the path of its group below the mount, "." for the
// mount itself.
func (m mount) member(root, controller string) (inner string, ok bool) {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (m.first && slices.Contains(strings.Split(f[1], ","), controller) || !m.first && f[0] == "0") {
			return m.below(f[2]), true
		}
	}
	return "", false
}

// below is group relative to the mount. A group that is elsewhere is out of sight: what is mounted
// is all there is to see.
func (m mount) below(group string) string {
	inner, err := filepath.Rel(m.top, group)
	if err != nil || inner == ".." || strings.HasPrefix(inner, "../") {
		return "."
	}
	return inner
}
