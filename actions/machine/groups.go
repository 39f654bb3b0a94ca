package machine

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// groups returns the folders of the control groups of this process for a controller, the innermost
// first. They are of version 2 and of version 1, since a machine may have both. A folder may lack
// the files of the controller.
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

// mount is a mounted file system of control groups.
type mount struct {
	top   string // the group at its mount point
	point string // the mount point
	first bool   // version 1, for some controllers; else version 2
}

// mounts parses /proc/self/mountinfo:
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

// below returns the path of a group relative to the mount, or "." for a group outside of the mount,
// which is invisible.
func (m mount) below(group string) string {
	inner, err := filepath.Rel(m.top, group)
	if err != nil || inner == ".." || strings.HasPrefix(inner, "../") {
		return "."
	}
	return inner
}
