package sched

import "math"

// queue holds nodes by rank, each with the memory it needs, and finds the best node that needs no
// more than a limit. With 100,000 compiles queued behind a link, all of them too large, it must not
// check each whenever a process ends.
//
// It is a binary tree in an array. Leaves are ranks, and each inner node has the least need below
// it.
type queue struct {
	least []int64
	count int
}

// absent is the need of a rank that is not in the queue. No need is as large.
const absent = math.MaxInt64

// all is room for everything.
const all = absent - 1

// newQueue returns an empty queue for ranks below n.
func newQueue(n int) queue {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	q := queue{least: make([]int64, 2*leaves)}
	for i := range q.least {
		q.least[i] = absent
	}
	return q
}

func (q *queue) put(rank int32, need int64) {
	q.count++
	q.set(rank, need)
}

func (q *queue) take(rank int32) {
	q.count--
	q.set(rank, absent)
}

func (q *queue) has(rank int32) bool { return q.least[len(q.least)/2+int(rank)] != absent }

func (q *queue) set(rank int32, need int64) {
	k := len(q.least)/2 + int(rank)
	q.least[k] = need
	for k /= 2; k > 0; k /= 2 {
		q.least[k] = min(q.least[2*k], q.least[2*k+1])
	}
}

// first returns the best rank, from one on, that needs at most room. ok is false if there is none.
func (q *queue) first(from int32, room int64) (rank int32, ok bool) {
	leaves := len(q.least) / 2
	k := leaves + int(from)
	if k == len(q.least) {
		return 0, false
	}
	for q.least[k] > room { // go to the next subtree to the right, as large as possible
		for k++; k%2 == 0; k /= 2 {
		}
		if k == 1 {
			return 0, false
		}
	}
	for k < leaves {
		if k *= 2; q.least[k] > room {
			k++
		}
	}
	return int32(k - leaves), true
}
