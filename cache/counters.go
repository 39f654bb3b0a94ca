package cache

import "time"

// Counters sum what the cache did for one build, or for all of them.
type Counters struct {
	Hits   int64         `json:"hits"`   // actions restored
	Misses int64         `json:"misses"` // actions looked up and not found
	Bytes  int64         `json:"bytes"`  // restored
	Saved  time.Duration `json:"saved"`  // what the restored actions took when they ran
}

// Add gives the sum.
func (c Counters) Add(d Counters) Counters {
	return Counters{c.Hits + d.Hits, c.Misses + d.Misses, c.Bytes + d.Bytes, c.Saved + d.Saved}
}
