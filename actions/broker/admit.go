package broker

import (
	"cmp"
	"slices"
)

// Who may start, of the rows of a table. Nothing here touches the world.

// budget is what leases take of processors or memory, by the limit of who has them.
//
// A limit bounds those who have it or a smaller one: what a user gives to a build with --mem 4GiB
// it shares with others that may have no more, while one that may have 16 GiB sees that all
// together stay below 16. If instead each compared its limit with everything that is leased, a
// build with -j2 beside one with -j16 could only start while the machine is nearly idle, and being
// served in turn would drain it.
type budget []class

type class struct{ limit, used int64 }

// add adds what a lease with a limit takes; or, if it is negative, takes it back.
func (b *budget) add(limit, amount int64) {
	i, ok := slices.BinarySearchFunc(*b, limit, func(c class, l int64) int { return cmp.Compare(c.limit, l) })
	if !ok {
		*b = slices.Insert(*b, i, class{limit: limit})
	}
	(*b)[i].used += amount
}

// fits reports that a lease with a limit may have what it needs. Where nothing is taken it may have
// more than the limit.
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

// load is what leases take together.
type load struct{ processors, memory budget }

func (l *load) add(r *row, by int64) {
	l.processors.add(int64(r.processors), by)
	l.memory.add(r.memoryLimit, by*r.memory)
}

// Reason is what a request waits for.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	None       Reason = ""           // it may start
	Processors Reason = "processors" // one to be free
	Memory     Reason = "memory"     // enough to be free
	Turn       Reason = "turn"       // one that came before, and would have to wait longer
)

// lacks is why a request with row r does not fit.
func (l *load) lacks(r *row) Reason {
	switch {
	case !l.processors.fits(int64(r.processors), 1):
		return Processors
	case !l.memory.fits(r.memoryLimit, r.memory):
		return Memory
	}
	return None
}

// queue is the rows of a table in the order of who may start: the positions of those that wait, by
// ticket, and for each what it waits for.
type queue struct {
	rows    []row
	waiting []int32
	reasons []Reason
}

// admit finds out who may start now. rows are all of a table.
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

// counted marks the rows of leases that count. Of a process whose commands wait for what runs
// inside them one lease counts for nothing for each such command, the smallest first: which of them
// it is, nobody knows.
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

// at is the place of a slot among those that wait.
func (q *queue) at(slot int32) int { return slices.Index(q.waiting, slot) }

// may reports whether the one at a place among those that wait may start.
func (q *queue) may(at int) bool { return q.reasons[at] == None }
