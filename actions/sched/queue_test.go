package sched

import (
	"math/rand/v2"
	"testing"
)

// TestQueue holds the tree against a list that is looked through.
func TestQueue(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := 1 + rng.IntN(40)
		q, needs := newQueue(n), make([]int64, n) // -1 is not in the queue
		for i := range needs {
			needs[i] = -1
		}
		for range 200 {
			rank := rng.IntN(n)
			if needs[rank] < 0 {
				needs[rank] = rng.Int64N(10)
				q.put(int32(rank), needs[rank])
			} else {
				needs[rank] = -1
				q.take(int32(rank))
			}
			from, room := rng.IntN(n+1), rng.Int64N(12)
			if rng.IntN(4) == 0 {
				room = all
			}
			want, found, count := 0, false, 0
			for r := n - 1; r >= 0; r-- {
				if needs[r] >= 0 {
					count++
				}
				if r >= from && needs[r] >= 0 && needs[r] <= room {
					want, found = r, true
				}
			}
			if got, ok := q.first(int32(from), room); ok != found || ok && int(got) != want || q.count != count {
				t.Fatalf("seed %d: of %v the first from %d within %d is %d, %v, want %d, %v; %d queued, want %d",
					seed, needs, from, room, got, ok, want, found, q.count, count)
			}
		}
	}
}
