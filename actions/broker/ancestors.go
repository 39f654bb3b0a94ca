package broker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ancestors returns the processes that this one runs inside, its parent first.
func ancestors(proc string, parent int) (pids []uint32) {
	for pid := parent; pid > 1 && len(pids) < 64; {
		pids = append(pids, uint32(pid))
		f := statFields(proc, pid, 2)
		if f == nil {
			break
		}
		pid, _ = strconv.Atoi(f[1])
	}
	return pids
}

// statFields returns the first n fields after the name in /proc/PID/stat: state, parent. It returns
// nil if the process does not exist.
//
//	12 (name) S 11 ...
//
// The name may contain any bytes.
func statFields(proc string, pid, n int) []string {
	stat, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(f) < n {
		return nil
	}
	return f[:n]
}
