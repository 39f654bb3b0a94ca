package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rowsOf makes rows of lines "held|waits memory [processors/memoryLimit]", which arrived in their
// order.
func rowsOf(t *testing.T, lines string) (rows []row) {
	t.Helper()
	for l := range strings.Lines(lines) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		r := row{Number: int64(len(rows) + 1), Needs: [2]int64{1, 0}, Limits: [2]int64{4, 10}}
		for i, f := range strings.Fields(l) {
			var err error
			switch {
			case f == "held":
				r.State = running
			case f == "waits":
				r.State = waiting
			case f == "gone":
			case i == 1:
				_, err = fmt.Sscan(f, &r.Needs[memory])
			case strings.Contains(f, "/"):
				_, err = fmt.Sscanf(f, "%d/%d", &r.Limits[processors], &r.Limits[memory])
			default:
				err = fmt.Errorf("what is %q", f)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func TestAdmit(t *testing.T) {
	tests := []struct {
		name, rows string
		want       []Reason // of those that wait
	}{
		{"the first starts, and more than there is", "waits 99", []Reason{None}},
		{"as many as there are processors", "held 0\nheld 0\nheld 0\nwaits 0\nwaits 0", []Reason{None, Processors}},
		{"as much as there is memory", "held 6\nwaits 4\nwaits 1", []Reason{None, Memory}},
		{"more than there is waits for all memory, not for all processors", "held 0\nheld 0\nwaits 11", []Reason{None}},
		{"beside more than there is nothing that takes memory runs", "held 11\nwaits 1\nwaits 0", []Reason{Memory, None}},
		{"what fits beside the head passes it", "held 8\nwaits 6\nwaits 2", []Reason{Memory, None}},
		{"what does not fit beside the head does not", "held 3\nwaits 8\nwaits 3\nwaits 2", []Reason{Memory, Turn, None}},
		{"nor what does not fit beside the head and those that have passed", "held 5\nwaits 7\nheld 2\nwaits 2\nwaits 1", []Reason{Memory, Turn, None}},
		{"the head keeps a processor", "held 8\nwaits 6\nheld 0\nheld 0\nwaits 0\nwaits 0", []Reason{Memory, None, Processors}},
		{"those that pass leave the head a processor", "held 8 2/10\nwaits 6 2/10\nwaits 0 4/10\nwaits 0 4/10\nwaits 0 4/10", []Reason{Memory, None, None, None}},
		{"a small limit bounds those who have it", "held 3 4/10\nheld 3 4/10\nwaits 2 2/4\nwaits 2 2/4\nwaits 1 2/4", []Reason{None, None, Processors}},
		{"a small limit of memory too", "held 3 9/10\nheld 3 9/10\nwaits 2 9/3\nwaits 2 9/3\nwaits 1 9/3", []Reason{None, Memory, None}},
		{"and a large one all", "held 2 2/4\nheld 2 2/4\nheld 5 4/10\nwaits 2 4/10\nwaits 1 4/10\nwaits 0 4/10", []Reason{Memory, None, Processors}},
		{"what has ended counts for nothing", "gone 10\nwaits 10", []Reason{None}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []Reason
			for _, w := range admit(rowsOf(t, test.rows)) {
				got = append(got, w.lacks)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// In random tables, in which leases end in any order and new requests always come, something always
// runs, limits hold, and each request starts before so many others have ended as there were when it
// became the head.
func TestNobodyStarves(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limits := [][2]int64{{4, 10}, {4, 10}, {2, 5}, {8, 20}}[:1+rng.IntN(4)]
		if err := play(rng, limits); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func play(rng *rand.Rand, limits [][2]int64) error {
	var rows []row
	var head, ahead int64 // the arrival of the head, and of the newest request when it became the head
	for arrived := int64(1); arrived < 400; arrived++ {
		l := limits[rng.IntN(len(limits))]
		rows = append(rows, row{State: waiting, Number: arrived, Limits: l, Needs: [2]int64{1, rng.Int64N(l[1]) * rng.Int64N(3) / 2}})
		now := int64(0)
		for _, w := range admit(rows) {
			if w.lacks == None {
				w.State = running
			} else if now == 0 {
				now = w.Number
			}
		}
		var held []int
		for i := range rows {
			if rows[i].State == running {
				held = append(held, i)
			}
		}
		if len(held) == 0 {
			return errors.New("nothing runs")
		}
		if err := within(rows); err != nil {
			return err
		}
		if now != head {
			head, ahead = now, arrived
		}
		// the oldest go on for as long as may be: those that pass the head are held against it
		i := held[len(held)-1]
		if rng.IntN(4) == 0 {
			i = held[rng.IntN(len(held))]
		}
		rows[i].State = free
		older := 0
		for k := range rows {
			if rows[k].State == running && rows[k].Number <= ahead {
				older++
			}
		}
		if head != 0 && older == 0 {
			if first := admit(rows)[0]; first.lacks != None {
				return fmt.Errorf("all that ran when %d became the head has ended, and it waits for %s", head, first.lacks)
			}
		}
	}
	return nil
}

// within checks the limits of what is held: all with a limit or a smaller one stay within it, but
// for one alone.
func within(rows []row) error {
	var held []*row
	for i := range rows {
		if rows[i].State == running {
			held = append(held, &rows[i])
		}
	}
	for _, l := range held {
		var sum [2]int64
		needy := 0
		for _, r := range held {
			for k := range sum {
				if r.Limits[k] <= l.Limits[k] {
					sum[k] += r.Needs[k]
				}
			}
			if r.Limits[memory] <= l.Limits[memory] && r.Needs[memory] > 0 {
				needy++
			}
		}
		if sum[processors] > l.Limits[processors] || sum[memory] > l.Limits[memory] && needy > 1 {
			return fmt.Errorf("%d run of %d", sum, l.Limits)
		}
	}
	return nil
}
