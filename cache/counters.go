package cache

import "time"

// Counters sum what the cache did for one build, or for all builds. Actions that the build tree
// satisfies are not looked up in the cache and not counted.
type Counters struct {
	// Actions restored by their command and the files that it read: no process was started.
	Direct int64 `json:"direct"`
	// Passes restored by the content of their input, which an earlier pass had to write.
	Stage  int64 `json:"stage"`
	Misses int64 `json:"misses"` // actions looked up and not found
	Bytes  int64 `json:"bytes"`  // restored
	// Elapsed time of the restored actions when they ran, minus the time that restoring took.
	Saved time.Duration `json:"saved"`

	// The part of Direct and Stage that was restored by records that only a remote cache had.
	Remote   int64 `json:"remote"`
	Received int64 `json:"received"` // bytes of outputs received from remote caches
	Sent     int64 `json:"sent"`     // bytes sent to remote caches
}

// Asked returns the number of actions that were looked up.
func (c Counters) Asked() int64 { return c.Direct + c.Stage + c.Misses }

// Hits returns the number of actions that were found.
func (c Counters) Hits() int64 { return c.Direct + c.Stage }

// Add returns the sum.
func (c Counters) Add(d Counters) Counters {
	return Counters{c.Direct + d.Direct, c.Stage + d.Stage, c.Misses + d.Misses, c.Bytes + d.Bytes, c.Saved + d.Saved,
		c.Remote + d.Remote, c.Received + d.Received, c.Sent + d.Sent}
}
