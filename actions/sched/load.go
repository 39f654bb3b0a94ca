package sched

import (
	"os"
	"strconv"
	"strings"
)

// systemLoad is the 1-minute load average; 0 where the system does not tell.
func systemLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
