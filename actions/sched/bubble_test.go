//go:build !race

package sched

import (
	"testing"
	"testing/synctest"
)

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) }
