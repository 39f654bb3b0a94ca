//go:build !linux

package cache

import "time"

// FileClock is the earliest time that a file can get which is changed at this moment.
func FileClock() time.Time { return time.Now().Add(-time.Duration(fineTick)) }

func keepsFileClock(string) bool { return false }
