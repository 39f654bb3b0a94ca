package broker

import (
	"cmp"
	"slices"
)

// Admission is computed from the rows alone. Requests are served first come, first served. The
// head is the first waiting request that does not fit. A request behind it may pass if the head
// would still fit beside it and the leases that have passed, which arrived later. So the head
// starts at the latest when the leases have ended that were held when it became the head, and each
// waiting request becomes the head in turn. No time is estimated.

// Reason states what a request lacks.
type Reason string

// The reasons, in the order in which they are checked.
const (
	None       Reason = ""           // it may start
	Processors Reason = "processors" // no processor is free
	Memory     Reason = "memory"     // not enough memory is free
	Turn       Reason = "turn"       // an earlier request would have to wait longer
)

// waiter is a waiting request.
type waiter struct {
	*row
	slot  int
	lacks Reason
}

// admit returns the waiting requests in their order, with what each lacks.
func admit(rows []row) (line []waiter) {
	var leases []*row
	for i := range rows {
		switch rows[i].State {
		case waiting:
			line = append(line, waiter{row: &rows[i], slot: i})
		case running:
			leases = append(leases, &rows[i])
		}
	}
	slices.SortFunc(line, func(a, b waiter) int { return cmp.Compare(a.Number, b.Number) })
	var head *row
	var passed []*row
	for i := range line {
		w := &line[i]
		w.lacks = lacks(leases, w.row)
		switch {
		case w.lacks != None && head == nil:
			head = w.row
			for _, l := range leases {
				if l.Number > head.Number {
					passed = append(passed, l)
				}
			}
		case w.lacks == None && head != nil:
			if passed = append(passed, w.row); lacks(passed, head) != None {
				passed = passed[:len(passed)-1]
				w.lacks = Turn
			}
		}
		if w.lacks == None {
			leases = append(leases, w.row)
		}
	}
	return line
}

// lacks returns what a request lacks beside leases.
//
// A limit bounds the leases with that limit or a smaller one. A build with --mem 4GiB shares those
// 4 GiB with others that may have no more. A build that may have 16 GiB makes sure that all
// together stay below 16. Suppose that each compared its limit with all leases instead. A build
// with -j2 beside one with -j16 could then only start while the machine is nearly idle. And since
// requests are served in turn, that would drain the machine.
//
// If nothing is leased, a request may exceed its limit, so something always runs.
func lacks(leases []*row, r *row) Reason {
	for k, reason := range []Reason{processors: Processors, memory: Memory} {
		checked := int64(-1)
		for i := range len(leases) + 1 {
			limit := r.Limits[k]
			if i < len(leases) {
				limit = leases[i].Limits[k]
			}
			if limit < r.Limits[k] || limit == checked {
				continue
			}
			checked = limit
			sum := int64(0)
			for _, l := range leases {
				if l.Limits[k] <= limit {
					sum += l.Needs[k]
				}
			}
			if sum > 0 && r.Needs[k] > 0 && sum+r.Needs[k] > limit {
				return reason
			}
		}
	}
	return None
}
