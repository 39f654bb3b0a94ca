package broker

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Entry is a lease or a waiting request.
type Entry struct {
	PID int // process id in its own pid namespace, which may be a container's
	Request
	Held   bool
	Since  time.Time // start of the lease, or of the wait
	Waits  Reason    // reason for the wait
	Behind int       // if Waits is Turn: the process of the head of the line
	Limits Limits    // of the requesting client
}

// List returns the current leases of a file, the longest held first, followed by the waiting
// requests in their order. It takes no locks.
func List(path string) (list []Entry, err error) {
	f, err := openFile(path, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no lease was ever taken here
	}
	if err != nil {
		return nil, err
	}
	defer f.close()
	rows, err := f.read(0)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].State == running {
			list = append(list, rows[i].entry(rows[i].Started))
		}
	}
	slices.SortStableFunc(list, func(a, b Entry) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.PID, b.PID))
	})
	head := 0
	for _, w := range admit(rows) {
		e := w.entry(w.Number)
		e.Waits = w.lacks
		if e.Waits == Turn {
			e.Behind = head
		} else if head == 0 && e.Waits != None {
			head = e.PID
		}
		list = append(list, e)
	}
	return list, nil
}

func (r *row) entry(since int64) Entry {
	text := append(strings.SplitN(string(r.Text[:]), "\x00", 4), "", "")
	e := Entry{PID: int(r.PID), Held: r.State == running, Since: time.Unix(0, since),
		Request: Request{Memory: r.Needs[memory], Label: text[0], Arch: text[1], Project: text[2]},
		Limits:  Limits{int(r.Limits[processors]), r.Limits[memory]}}
	if e.Limits.Memory >= AllMemory {
		e.Limits.Memory = 0
	}
	return e
}
