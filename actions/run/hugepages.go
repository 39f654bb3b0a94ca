package run

import (
	"os"
	"strconv"
	"strings"
)

// HugePages returns the variables that make malloc of a program use huge pages. cudafe++ 11.8
// clears 128 MiB of tables for any source, and cicc grows by as much: that is 45,000 page faults,
// or 64 with huge pages. They save 43 % of the CPU time of cudafe++ and 25 % of that of cicc. If
// the kernel must first compact memory, the same costs up to 50 % more. So HugePages requests them
// only while the kernel has need bytes of free memory in blocks of that size (docs/nvcc.md).
//
// The variables do nothing, and no harm, without glibc 2.35. HugePages returns none if huge pages
// are off, or on for all processes.
func HugePages(need int64) []string {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || !strings.Contains(string(mode), "[madvise]") || os.Getpagesize() != 4096 {
		return nil
	}
	free, err := os.ReadFile("/proc/buddyinfo")
	if err != nil || freeHuge(string(free)) < need {
		return nil
	}
	return []string{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}
}

// hugeOrder is the order of a block of 2 MiB, in pages of 4 KiB.
const hugeOrder = 9

// freeHuge returns the free memory in blocks of at least 2 MiB, in bytes. A line of /proc/buddyinfo
// has "Node 0, zone Normal" and the number of free blocks of each order.
func freeHuge(buddyinfo string) int64 {
	var pages int64
	for line := range strings.Lines(buddyinfo) {
		_, counts, ok := strings.Cut(line, "zone")
		if !ok {
			continue
		}
		for i, f := range strings.Fields(counts) {
			// the zone's name is field 0
			if n, err := strconv.ParseInt(f, 10, 64); err == nil && i > hugeOrder {
				pages += n << (i - 1)
			}
		}
	}
	return pages << 12
}
