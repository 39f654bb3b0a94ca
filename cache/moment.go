package cache

import "time"

// Moment is a point in time on two clocks.
type Moment struct {
	Time time.Time
	// On the clock of files: no file changed later gets an earlier time, see fileClock.
	File time.Time
}

// Now returns the current Moment.
func Now() Moment {
	file := fileClock() // before the wall clock, so that no file change falls in between
	return Moment{time.Now(), file}
}

// FileTick is twice the step of the slowest kernel's file clock.
const FileTick = 20 * time.Millisecond
