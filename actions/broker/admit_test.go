package broker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rowsOf makes rows of lines "held|waits memory [processors/memoryLimit] [pid=N] [in=N:COMMAND]",
// whose tickets are their order.
func rowsOf(t *testing.T, lines string) (rows []row) {
	t.Helper()
	for l := range strings.Lines(lines) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		r := row{ticket: uint64(len(rows) + 1), processors: 4, memoryLimit: 10, pid: uint32(100 + len(rows))}
		for i, f := range strings.Fields(l) {
			var err error
			switch {
			case f == "held":
				r.state = held
			case f == "waits":
				r.state = waiting
			case f == "gone":
			case i == 1:
				_, err = fmt.Sscan(f, &r.memory)
			case strings.Contains(f, "/"):
				_, err = fmt.Sscanf(f, "%d/%d", &r.processors, &r.memoryLimit)
			case strings.HasPrefix(f, "pid="):
				_, err = fmt.Sscanf(f, "pid=%d", &r.pid)
			case strings.HasPrefix(f, "in="):
				_, err = fmt.Sscanf(f, "in=%d:%d", &r.outer, &r.command)
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
		{"what a command itself waits for runs in its place", "held 9 1/10 pid=7\nwaits 9 1/10 in=7:70\nwaits 1 1/10", []Reason{None, Processors}},
		{"in that of one lease for each command", "held 1 2/10 pid=7\nheld 9 2/10 pid=7\nwaits 1 2/10 in=7:70\nwaits 0 2/10 in=7:70", []Reason{None, Processors}},
		{"two that wait for what runs inside", "held 6 2/10 pid=7\nheld 3 2/10 pid=8\nwaits 9 2/10 in=7:70\nwaits 9 2/10 in=8:80", []Reason{None, Memory}},
		{"inside what runs inside", "held 9 1/10 pid=7\nheld 9 1/10 pid=8 in=7:70\nwaits 9 1/10 in=8:80", []Reason{None}},
		{"what has ended counts for nothing", "gone 10\nwaits 10", []Reason{None}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, admit(rowsOf(t, test.rows)).reasons); diff != "" {
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
	var head, ahead uint64 // the ticket of the head, and the newest that was held when it became the head
	for ticket := uint64(1); ticket < 400; ticket++ {
		l := limits[rng.IntN(len(limits))]
		rows = append(rows, row{state: waiting, ticket: ticket, processors: int32(l[0]), memoryLimit: l[1], memory: rng.Int64N(l[1]) * rng.Int64N(3) / 2})
		q := admit(rows)
		for k, slot := range q.waiting {
			if q.may(k) {
				rows[slot].state = held
			}
		}
		var running []int
		newest := uint64(0)
		for i := range rows {
			if rows[i].state == held {
				running = append(running, i)
				newest = max(newest, rows[i].ticket)
			}
		}
		if len(running) == 0 {
			return fmt.Errorf("nothing runs, %d wait", len(q.waiting))
		}
		if err := within(rows); err != nil {
			return err
		}
		now := uint64(0)
		for k, slot := range q.waiting {
			if !q.may(k) {
				now = rows[slot].ticket
				break
			}
		}
		if now != head {
			head, ahead = now, ticket
		}
		// the oldest go on for as long as may be: those that pass the head are held against it
		i := running[len(running)-1]
		if rng.IntN(4) == 0 {
			i = running[rng.IntN(len(running))]
		}
		rows[i].state = free
		older := 0
		for k := range rows {
			if rows[k].state == held && rows[k].ticket <= ahead {
				older++
			}
		}
		if head != 0 && older == 0 {
			if q = admit(rows); !q.may(0) {
				return fmt.Errorf("all that ran when %d became the head has ended, and it waits for %s", head, q.reasons[0])
			}
		}
	}
	return nil
}

// within checks the limits of what is held: all with a limit or a smaller one stay within it, but
// for one alone.
func within(rows []row) error {
	for _, l := range rows {
		if l.state != held {
			continue
		}
		n, memory, needy := int32(0), int64(0), 0
		for _, r := range rows {
			if r.state == held && r.processors <= l.processors {
				n++
			}
			if r.state == held && r.memoryLimit <= l.memoryLimit && r.memory > 0 {
				memory += r.memory
				needy++
			}
		}
		if n > l.processors || memory > l.memoryLimit && needy > 1 {
			return fmt.Errorf("%d run of %d, with %d of %d", n, l.processors, memory, l.memoryLimit)
		}
	}
	return nil
}
