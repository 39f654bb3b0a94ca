package sched

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// loadInterval is how long a run that the load holds back waits before it checks again, if nothing
// ends before.
const loadInterval = time.Second

// overloaded reports whether the load forbids another process. One may always run.
//
// The average lags by a minute. By itself it lets a build start everything it has at the same
// moment (ninja reached a load of 562 where make stayed at 132). So the processes of this run count
// as load from the moment they start, and the average stands for all other processes.
func (l *loop) overloaded() bool {
	if l.opts.MaxLoad <= 0 || l.count[running] == 0 {
		return false
	}
	if float64(l.count[running]) < l.opts.MaxLoad && l.opts.Load() < l.opts.MaxLoad {
		return false
	}
	if l.loadTimer == nil {
		l.loadTimer = time.After(loadInterval)
	}
	return true
}

// systemLoad returns the 1-minute load average, or 0 if it is not known.
func systemLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
