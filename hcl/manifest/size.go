package manifest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
}

// ParseSize parses a size in bytes such as "4GiB", "512M", "1.5 GB" or "4096". K, M, G and T
// without a B are powers of 1024.
func ParseSize(s string) (int64, error) {
	t := strings.TrimSpace(s)
	end := strings.IndexFunc(t, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(t)
	}
	n, err := strconv.ParseFloat(t[:end], 64)
	unit, ok := units[strings.ToLower(strings.TrimSpace(t[end:]))]
	if err != nil || !ok || n*unit > math.MaxInt64/2 {
		return 0, fmt.Errorf(`%q is no size; write for example "4GiB", "512MiB" or a number of bytes`, s)
	}
	return int64(n * unit), nil
}
