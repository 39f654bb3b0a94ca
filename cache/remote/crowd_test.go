package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// rush is how many calls are under way at most, of very many, with a server that takes a time for
// each that depends on how many there are.
func rush(c *crowd, calls int, takes func(inside int) (d time.Duration, refused bool)) (peak int) {
	var inside, highest atomic.Int64
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			turn, _ := c.enter(context.Background(), nil)
			n := inside.Add(1)
			for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
			}
			d, refused := takes(int(n))
			time.Sleep(d)
			inside.Add(-1)
			c.leave(turn, Records, d, refused)
		})
	}
	all.Wait()
	return int(highest.Load())
}

// As many calls are under way as the server answers in time: all at a quick one or one far away,
// few at one that is slow with many or refuses them.
func TestCrowd(t *testing.T) {
	for _, tt := range []struct {
		name        string
		takes       func(inside int) (time.Duration, bool)
		least, most int // the limit in the end
	}{
		{"quick", func(int) (time.Duration, bool) { return 40 * time.Millisecond, false }, most, most},
		{"far away", func(int) (time.Duration, bool) { return 200 * time.Millisecond, false }, most, most},
		{"one thing at a time", func(n int) (time.Duration, bool) { return time.Duration(n) * 10 * time.Millisecond, false }, least, 20},
		{"slower than anything", func(n int) (time.Duration, bool) { return time.Duration(n) * time.Second, false }, least, least},
		{"refuses more than 20", func(n int) (time.Duration, bool) { return 10 * time.Millisecond, n > 20 }, least, 21},
		{"refuses all", func(n int) (time.Duration, bool) { return 10 * time.Millisecond, true }, least, least},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd()
			peak := rush(c, 2000, tt.takes)
			if c.limit < tt.least || c.limit > tt.most || len(c.places) != c.limit+c.over || peak > most {
				t.Errorf("%s: %d calls at once in the end, want %d to %d; %d places, %d over, at most %d at once", tt.name, c.limit, tt.least, tt.most, len(c.places), c.over, peak)
			}
		})
	}
}

func TestCrowdEnds(t *testing.T) {
	c, off := newCrowd(), make(chan struct{})
	for range first {
		c.enter(t.Context(), off)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.enter(ctx, off); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(off)
	if _, err := c.enter(t.Context(), off); !errors.Is(err, ErrOff) {
		t.Error(err)
	}
}

// A call that the server refuses because there are too many is made again, and is trouble if there
// are always too many.
func TestRefused(t *testing.T) {
	c, s := start(t, "busy each other time", false, time.Hour)
	if recs := c.Records(t.Context(), sample.Command); len(recs) != 1 || s.all() != "" {
		t.Errorf("%v; %s", recs, s.all())
	}
	c.Store(sample)
	if got := c.Close(); got.Stored != 1 || s.all() != "" {
		t.Errorf("%+v; %s", got, s.all())
	}
	c, s = start(t, "busy", false, time.Hour)
	if recs := c.Records(t.Context(), sample.Command); len(recs) != 0 {
		t.Error("there are records")
	}
	c.Store(sample)
	want := fmt.Sprintf("taking from the remote cache grpc://cache: too many calls, %d by now; building goes on", tries)
	if got := c.Close(); got.Unsent != 1 || s.all() != want {
		t.Errorf("%+v; %q, want %q", got, s.all(), want)
	}
}
