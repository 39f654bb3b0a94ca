package broker

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Entry is a lease or a waiting request.
type Entry struct {
	PID int // process id in its own pid namespace, which may be a container's
	Request
	Held   bool
	Since  time.Time // start of the lease, or of the wait
	Waits  Reason    // reason for the wait
	Behind int       // if Waits is Turn: the process of the head of the queue
	Limits Limits    // of the requesting client
}

// List returns the current leases of a folder, the longest held first, followed by the waiting
// requests in their order.
func List(ctx context.Context, dir string) ([]Entry, error) {
	if _, err := os.Stat(filepath.Join(dir, tableName)); os.IsNotExist(err) {
		return nil, nil // no lease was ever taken here
	}
	t, err := openTable(dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.lock(ctx); err != nil {
		return nil, err
	}
	defer t.unlock()
	c := &Client{turns: map[int32]*turn{}}
	for i := range t.rows { // drop dead rows, but not from the file: List does not write
		if t.rows[i].state == free {
			continue
		}
		alive, err := c.alive(t, int32(i))
		if err != nil {
			return nil, err
		}
		if !alive {
			t.rows[i] = row{}
		}
	}
	return t.entries(), nil
}

func (t *table) entries() (list []Entry) {
	for i := range t.rows {
		if t.rows[i].state == held {
			list = append(list, t.entry(int32(i)))
		}
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID)) })
	q := admit(t.rows)
	head := 0
	for k, slot := range q.waiting {
		e := t.entry(slot)
		e.Waits = q.reasons[k]
		if e.Waits == Turn {
			e.Behind = head
		} else if head == 0 && e.Waits != None {
			head = e.PID
		}
		list = append(list, e)
	}
	return list
}

func (t *table) entry(slot int32) Entry {
	r := &t.rows[slot]
	e := Entry{PID: int(r.pid), Held: r.state == held, Since: time.Unix(0, r.since), Request: Request{Memory: r.memory},
		Limits: Limits{Processors: int(r.processors), Memory: r.memoryLimit}}
	if e.Limits.Memory >= unlimited {
		e.Limits.Memory = 0
	}
	e.Label, e.Arch, e.Project = t.words(slot)
	return e
}
