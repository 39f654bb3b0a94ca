package manifest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Constraint is a condition on versions: ">= 11.2, < 13". The zero value allows all.
type Constraint []bound

type bound struct {
	op      string
	version []int
}

var boundRE = pattern(`^(>=|<=|!=|~>|>|<|=)?\s*([0-9]{1,9}(?:\.[0-9]{1,9})*)$`)

// ParseConstraint parses bounds separated by commas, all of which must be satisfied. "~> 11.2"
// allows every later 11.x.
func ParseConstraint(s string) (Constraint, error) {
	var c Constraint
	for part := range strings.SplitSeq(s, ",") {
		m := boundRE().FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil, fmt.Errorf(`%q is not a version constraint; write for example ">= 11.2, < 13"`,
				strings.TrimSpace(part))
		}
		c = append(c, bound{cmp.Or(m[1], "="), versionNumbers(m[2])})
	}
	return c, nil
}

// Allows reports whether a version such as "11.8.89" satisfies every bound. It ignores a suffix
// such as "-dev".
func (c Constraint) Allows(version string) bool {
	v := versionNumbers(version)
	return !slices.ContainsFunc(c, func(b bound) bool { return !b.allows(v) })
}

func (b bound) allows(v []int) bool {
	n := compareVersions(v, b.version)
	switch b.op {
	case ">=":
		return n >= 0
	case ">":
		return n > 0
	case "<=":
		return n <= 0
	case "<":
		return n < 0
	case "!=":
		return n != 0
	case "~>":
		fixed := max(1, len(b.version)-1)
		return n >= 0 && compareVersions(pad(v, fixed), b.version[:fixed]) == 0
	}
	return n == 0
}

func versionNumbers(s string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimPrefix(s, "v"), ".") {
		end := 0
		for end < len(part) && part[end] >= '0' && part[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		out = append(out, n)
		if end < len(part) {
			break
		}
	}
	return out
}

// pad returns v with exactly n numbers.
func pad(v []int, n int) []int {
	out := make([]int, n)
	copy(out, v)
	return out
}

func compareVersions(a, b []int) int {
	n := max(len(a), len(b))
	return slices.Compare(pad(a, n), pad(b, n))
}

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
		return 0, fmt.Errorf(`%q is not a size; write for example "4GiB", "512MiB" or a number of bytes`, s)
	}
	return int64(n * unit), nil
}
