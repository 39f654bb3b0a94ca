//go:build !linux

package cache

import "time"

// fileClock is the earliest time that a file can get which is changed at this moment.
func fileClock() time.Time { return time.Now().Add(-FileTick) }

func keepsFileClock(string) bool { return false }
