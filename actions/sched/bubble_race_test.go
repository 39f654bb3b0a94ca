//go:build race

package sched

import "testing"

// bubble skips: timers in a bubble crash the race detector (https://go.dev/issue/78156).
// TestRandomInRealTime is there for it.
func bubble(t *testing.T, _ func(*testing.T)) {
	t.Skip("needs fake time, which crashes the race detector")
}
