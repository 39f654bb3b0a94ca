package jobserver

import "time"

var (
	never   time.Time         // no deadline
	longAgo = time.Unix(1, 0) // a deadline that wakes a reader at once
)
