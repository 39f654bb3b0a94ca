package cache

import "time"

// Counters sum what the cache did for one build, or for all of them. What a build tree holds
// already is not asked of the cache and not counted.
type Counters struct {
	Direct int64         `json:"direct"` // actions restored by their command and the files it read: no process was started
	Stage  int64         `json:"stage"`  // passes restored by the content that they work on, which an earlier pass had to make
	Misses int64         `json:"misses"` // actions looked up and not found
	Bytes  int64         `json:"bytes"`  // restored
	Saved  time.Duration `json:"saved"`  // what the restored actions took when they ran, less what restoring took

	Remote   int64 `json:"remote"`   // of Direct and Stage: those by records that a remote cache had, and this machine did not
	Received int64 `json:"received"` // bytes of outputs, from remote caches
	Sent     int64 `json:"sent"`     // bytes, to remote caches
}

// Asked is the number of actions that were looked up.
func (c Counters) Asked() int64 { return c.Direct + c.Stage + c.Misses }

// Hits is the number of those that were found.
func (c Counters) Hits() int64 { return c.Direct + c.Stage }

// Add gives the sum.
func (c Counters) Add(d Counters) Counters {
	return Counters{c.Direct + d.Direct, c.Stage + d.Stage, c.Misses + d.Misses, c.Bytes + d.Bytes, c.Saved + d.Saved,
		c.Remote + d.Remote, c.Received + d.Received, c.Sent + d.Sent}
}
