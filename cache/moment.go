package cache

import "time"

// Moment is a point in time by two clocks.
type Moment struct {
	Time time.Time
	File time.Time // that of files: no file that is changed later gets an earlier time, see fileClock
}

// Now is this moment.
func Now() Moment {
	file := fileClock() // before the other, so that no file fits in between
	return Moment{time.Now(), file}
}

// FileTick is twice the step of the slowest kernel's file clock.
const FileTick = 20 * time.Millisecond
