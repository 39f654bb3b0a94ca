package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A tree is what a root directory holds, by path.
type tree map[string]string

func (f tree) write(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range f {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	meminfo = "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   10485760 kB\n" // 16, 1 and 10 GiB
	v2mount = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	v1mount = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	docker1 = "611 601 0:32 /docker/ab /sys/fs/cgroup/memory ro,relatime master:15 - cgroup cgroup rw,memory\n"
	v2slice = "sys/fs/cgroup/user.slice/"
	v2job   = v2slice + "build.scope/"
	gib     = 1 << 30
)

func TestMemory(t *testing.T) {
	tests := []struct {
		name  string
		files tree
		want  int64
	}{
		{"nothing is known", tree{}, 0},
		{"a machine", tree{"proc/meminfo": meminfo}, 10 * gib},
		{"version 2, no limit", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount,
			v2job + "memory.max": "max\n", v2job + "memory.high": "max\n", v2job + "memory.current": "999\n"}, 10 * gib},
		{"version 2, limit", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount,
			v2job + "memory.max": "4294967296\n"}, 4 * gib},
		{"version 2, a limit above all there is", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount,
			v2job + "memory.max": "42949672960\n"}, 10 * gib},
		{"version 2, slowed down before", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount,
			v2job + "memory.max": "4294967296\n", v2job + "memory.high": "3221225472\n"}, 3 * gib},
		{"version 2, limit of a parent, which others use", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount,
			v2job + "memory.max": "4294967296\n", v2job + "memory.current": "1073741824\n",
			v2slice + "memory.max": "5368709120\n", v2slice + "memory.current": "4294967296\n",
			v2slice + "memory.stat": "anon 3221225472\nactive_file 536870912\ninactive_file 536870912\n"}, 2 * gib},
		{"version 2, all in use", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount,
			v2job + "memory.max": "4096\n", v2job + "memory.current": "8192\n"}, 1},
		{"version 2 in a container", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2mount,
			"sys/fs/cgroup/memory.max": "2147483648\n"}, 2 * gib},
		{"version 2, a group out of sight", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../elsewhere\n", "proc/self/mountinfo": v2mount,
			"sys/fs/cgroup/memory.max": "2147483648\n"}, 2 * gib},
		{"version 1, limit of a parent", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "9:pids:/job/other\n4:memory:/job/step\n1:cpu,cpuacct:/\n0::/\n", "proc/self/mountinfo": v1mount,
			"sys/fs/cgroup/memory/memory.limit_in_bytes":           "9223372036854771712\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes":       "6442450944\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes":       "5368709120\n",
			"sys/fs/cgroup/memory/job/memory.stat":                 "inactive_file 1\nactive_file 1\ntotal_inactive_file 3221225472\ntotal_active_file 1073741824\n",
			"sys/fs/cgroup/memory/job/step/memory.limit_in_bytes":  "9223372036854771712\n",
			"sys/fs/cgroup/memory/job/other/memory.limit_in_bytes": "1073741824\n"}, 5 * gib},
		{"memory in version 2 beside version 1", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu:/\n0::/job\n", "proc/self/mountinfo": v1mount,
			"sys/fs/cgroup/unified/job/memory.max": "1073741824\n"}, gib},
		{"version 1 in a container that sees the host's names", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/ab\n", "proc/self/mountinfo": docker1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes":           "1073741824\n",
			"sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes": "1048576\n"}, gib},
		{"version 1, another's group", tree{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/cd\n", "proc/self/mountinfo": docker1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/cd/memory.limit_in_bytes":     "1048576\n"}, gib},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Memory(test.files.write(t)); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	group := tree{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/user.slice/build.scope\n", "proc/self/mountinfo": v2mount}
	if got := MemoryLimit(group.write(t)); got != 0 {
		t.Errorf("%d bytes without a limit, want 0", got)
	}
	group[v2job+"memory.max"], group[v2job+"memory.current"], group[v2slice+"memory.high"] = "8589934592\n", "8589930000\n", "4294967296\n"
	if got := MemoryLimit(group.write(t)); got != 4*gib {
		t.Errorf("%d bytes, want 4 GiB, whatever is in use", got)
	}
}

// This machine has some.
func TestHere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	if m := Memory("/"); m < 64<<20 {
		t.Errorf("%d bytes", m)
	}
}
