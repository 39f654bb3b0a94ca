package broker

import (
	"cmp"
	"slices"
)

// Admission is computed from the rows of a table alone.

// budget is the sum of leased processors or memory, by the limit of the client.
//
// A limit bounds the leases with that limit or a smaller one. A build with --mem 4GiB shares those
// 4 GiB with others that may have no more. A build that may have 16 GiB makes sure that all
// together stay below 16. Suppose that each client compared its limit with all leases instead. A
// build with -j2 beside one with -j16 could then only start while the machine is nearly idle. And
// since requests are served in turn, that would drain the machine.
type budget []class

type class struct{ limit, used int64 }

// add adds the amount of a lease with a limit; a negative amount removes it.
func (b *budget) add(limit, amount int64) {
	i, ok := slices.BinarySearchFunc(*b, limit, func(c class, l int64) int { return cmp.Compare(c.limit, l) })
	if !ok {
		*b = slices.Insert(*b, i, class{limit: limit})
	}
	(*b)[i].used += amount
}

// fits reports whether a lease with a limit may have what it needs. If nothing is leased, it may
// exceed the limit.
func (b *budget) fits(limit, need int64) bool {
	b.add(limit, 0)
	used := int64(0)
	for _, c := range *b {
		if used += c.used; c.limit >= limit && used > 0 && need > 0 && used+need > c.limit {
			return false
		}
	}
	return true
}

// load is the total of some leases.
type load struct{ processors, memory budget }

func (l *load) add(r *row, by int64) {
	l.processors.add(int64(r.processors), by)
	l.memory.add(r.memoryLimit, by*r.memory)
}

// Reason states what a request waits for.
type Reason string

// The reasons, in the order in which they are checked.
const (
	None       Reason = ""           // it may start
	Processors Reason = "processors" // no processor is free
	Memory     Reason = "memory"     // not enough memory is free
	Turn       Reason = "turn"       // an earlier request would have to wait longer
)

// lacks returns the reason why a request with row r does not fit, or None.
func (l *load) lacks(r *row) Reason {
	switch {
	case !l.processors.fits(int64(r.processors), 1):
		return Processors
	case !l.memory.fits(r.memoryLimit, r.memory):
		return Memory
	}
	return None
}

// queue is the waiting requests of a table: their slots, sorted by ticket, and the reason why each
// waits.
type queue struct {
	rows    []row
	waiting []int32
	reasons []Reason
}

// admit computes which requests may start now. rows are all rows of a table.
func admit(rows []row) queue {
	q := queue{rows: rows}
	var held load
	counting := counted(rows)
	for i := range rows {
		switch {
		case rows[i].state == waiting:
			q.waiting = append(q.waiting, int32(i))
		case counting[i]:
			held.add(&rows[i], 1)
		}
	}
	slices.SortFunc(q.waiting, func(i, k int32) int { return cmp.Compare(rows[i].ticket, rows[k].ticket) })
	var head *row // the first that does not fit
	var passed load
	for _, i := range q.waiting {
		r := &rows[i]
		why := held.lacks(r)
		if why == None && head != nil {
			if passed.add(r, 1); passed.lacks(head) != None {
				passed.add(r, -1)
				why = Turn
			}
		}
		q.reasons = append(q.reasons, why)
		switch {
		case why == None:
			held.add(r, 1)
		case head == nil:
			head = r
			for k := range rows {
				if counting[k] && rows[k].ticket > head.ticket {
					passed.add(&rows[k], 1)
				}
			}
		}
	}
	return q
}

// counted marks the rows of leases that count. A process may have several leases, and some of its
// commands may wait for requests that run inside them. For each such command one of its leases does
// not count, the smallest first: which lease the command has is unknown.
func counted(rows []row) []bool {
	counts := make([]bool, len(rows))
	inside := map[uint32][]uint32{} // the commands, by the process that started them
	for i := range rows {
		r := &rows[i]
		counts[i] = r.state == held
		if r.state != free && r.outer != 0 && !slices.Contains(inside[r.outer], r.command) {
			inside[r.outer] = append(inside[r.outer], r.command)
		}
	}
	for pid, commands := range inside {
		var outer []int32
		for i := range rows {
			if rows[i].state == held && rows[i].pid == pid {
				outer = append(outer, int32(i))
			}
		}
		slices.SortFunc(outer, func(i, k int32) int { return cmp.Compare(rows[i].memory, rows[k].memory) })
		for _, i := range outer[:min(len(commands), len(outer))] {
			counts[i] = false
		}
	}
	return counts
}

// at returns the position of a slot in the queue, or -1.
func (q *queue) at(slot int32) int { return slices.Index(q.waiting, slot) }

// may reports whether the request at a position of the queue may start.
func (q *queue) may(at int) bool { return q.reasons[at] == None }
