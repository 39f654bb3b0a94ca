package remote

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// Time limits. A call that takes at most free costs nothing. The time beyond it is charged,
// concurrent calls only once. The total may reach patience minus the time that hits have saved.
// Then the cache is off for the rest of the build.
const (
	free     = 250 * time.Millisecond
	patience = 1500 * time.Millisecond
)

// ErrOff is the error of every call after giveUp.
var ErrOff = errors.New("the remote cache is off for the rest of this build")

// Options configure the connection to a remote cache.
type Options struct {
	Program  string // path of kbuild-remote
	Address  string
	Dir      string // folder of the local store
	ReadOnly bool
	Execute  bool          // the server may run commands
	Patience time.Duration // how long a build may wait without a hit; 0 means the default
	Warn     func(text string)

	Anonymous bool   // do not send credentials to the server
	Server    string // HOST:PORT of Address, for messages
}

// Cache is a remote cache. All methods may be called concurrently.
type Cache struct {
	opts Options
	cmd  *exec.Cmd
	// Requests to write: a pipe that the program does not read would block the holder of mu.
	queue    chan Request
	off      chan struct{}  // closed when the cache is off
	ended    chan struct{}  // closed when the program has ended
	ready    chan struct{}  // closed when hello was answered, or the cache is off
	sending  sync.WaitGroup // records that are being sent
	reported sync.Once
	crowd    *crowd

	mu       sync.Mutex
	calls    map[int]*waiting
	last     int
	readOnly bool
	slow     int           // number of calls that have taken longer than free
	since    time.Time     // when slow became positive, or patience was last charged
	left     time.Duration // remaining patience
	moved    time.Time     // last sign of a transfer or an answer
	over     *time.Timer
	stats    Stats
	exec     execution
}

// Stats count the use of the cache in a build.
type Stats struct {
	Server         string
	Hits, Misses   int
	Received, Sent int64 // bytes transferred, of outputs and records, as compressed
	Stored         int   // records
	Unsent         int   // records that were not stored
	Off            bool

	Executed  int   // remote commands whose outputs were used
	Lost      int   // remote commands that were lost and ran locally instead
	Beaten    int   // remote commands that were slower than the same command run locally
	Submitted int64 // bytes sent for remote commands
	Returned  int64 // bytes received from remote commands
}

// Start starts kbuild-remote. It returns at once; calls wait until the server has answered.
func Start(o Options) (*Cache, error) {
	o.Patience = cmp.Or(o.Patience, patience)
	c := &Cache{opts: o, cmd: exec.Command(o.Program), queue: make(chan Request, 256), off: make(chan struct{}), ended: make(chan struct{}),
		ready: make(chan struct{}), calls: map[int]*waiting{}, left: o.Patience, crowd: newCrowd(),
		exec: execution{doubtful: map[*Outcome]struct{}{}}}
	if o.Anonymous {
		c.cmd.Env = anonymous(os.Environ())
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the remote cache needs the program kbuild-remote: %w", err)
	}
	go c.transmit(in)
	go c.receive(out)
	go c.hello()
	return c, nil
}

// anonymous removes the credentials from an environment, even variables that only a later
// kbuild-remote knows.
func anonymous(env []string) []string {
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "KBUILD_REMOTE_") && name != "KBUILD_REMOTE_CA"
	})
}

// transmit writes requests until the cache is off.
func (c *Cache) transmit(in io.WriteCloser) {
	defer in.Close()
	enc := json.NewEncoder(in)
	for {
		select {
		case r := <-c.queue:
			if err := enc.Encode(r); err != nil {
				c.giveUp("kbuild-remote ended")
				return
			}
		case <-c.off:
			return
		}
	}
}

// receive passes answers to the waiting calls until the program ends.
func (c *Cache) receive(out io.Reader) {
	dec := json.NewDecoder(bufio.NewReader(out))
	var err error
	for err == nil {
		var a Answer
		if err = dec.Decode(&a); err == nil {
			c.answer(a)
		}
	}
	c.giveUp("kbuild-remote ended")
	c.cmd.Wait()
	close(c.ended)
}

func (c *Cache) answer(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = time.Now()
	w := c.calls[a.ID]
	switch {
	case w == nil:
	case a.Moves:
		if w.impatient != nil {
			c.patient(w)
			w.impatient = time.AfterFunc(free, func() { c.impatient(w) })
		}
	default:
		w.answer <- a
		delete(c.calls, a.ID)
	}
}

// waiting is a request without an answer.
type waiting struct {
	answer    chan Answer
	impatient *time.Timer // nil if no caller waits
	slow      bool
}

func (c *Cache) hello() {
	defer close(c.ready)
	r := Request{Operation: Hello, Protocol: Protocol, Address: c.opts.Address, Dir: c.opts.Dir, ReadOnly: c.opts.ReadOnly}
	if c.opts.Patience != patience {
		r.Patience = c.opts.Patience
	}
	a, err := c.call(context.Background(), r)
	c.mu.Lock()
	c.readOnly, c.stats.Server = c.opts.ReadOnly || a.ReadOnly, a.Server
	c.exec.on = a.Executes && c.opts.Execute
	c.mu.Unlock()
	if c.opts.Execute && err == nil && !a.Executes && c.opts.Warn != nil {
		// Not warnOnce: a later failure must still be reported.
		c.opts.Warn("the server " + c.opts.Address + " runs no commands: all of them run here")
	}
	switch {
	case err != nil && a.Denied:
		c.giveUp(err.Error() + c.whoAsks())
	case err != nil:
		c.giveUp(err.Error())
	}
}

// whoAsks returns advice for a server that requires authentication.
func (c *Cache) whoAsks() string {
	if c.opts.Anonymous {
		return "; credentials are sent to the servers in KBUILD_REMOTE_HOSTS alone, and " + c.opts.Server + " is none of them"
	}
	return "; it wants to know who asks: set KBUILD_REMOTE_TOKEN_FILE, KBUILD_REMOTE_PASSWORD_FILE or KBUILD_REMOTE_CREDENTIAL_HELPER"
}

// giveUp turns the cache off for the rest of this build and warns once.
func (c *Cache) giveUp(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOff() {
		return
	}
	close(c.off)
	c.stats.Off = true
	c.warnOnce(fmt.Sprintf("the remote cache %s is not used for the rest of this build: %s", c.opts.Address, why))
}

func (c *Cache) isOff() bool {
	select {
	case <-c.off:
		return true
	default:
		return false
	}
}

// call sends a request within the limit of concurrent calls, and retries if the server is busy.
func (c *Cache) call(ctx context.Context, r Request) (a Answer, err error) {
	learned := r.Operation
	if learned != Records && learned != Has {
		learned = "" // its duration depends on its content
	}
	for range tries {
		turn, err := c.crowd.enter(ctx, c.off)
		if err != nil {
			return Answer{}, err
		}
		begun := time.Now()
		a, err = c.patiently(ctx, r)
		if c.crowd.leave(turn, learned, time.Since(begun), a.Busy); !a.Busy {
			return a, err
		}
	}
	return a, errors.New(a.Error)
}

// patiently is ask, but charges patience for a slow call.
func (c *Cache) patiently(ctx context.Context, r Request) (Answer, error) {
	w := &waiting{answer: make(chan Answer, 1)}
	c.mu.Lock()
	w.impatient = time.AfterFunc(free, func() { c.impatient(w) })
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.patient(w)
		w.impatient = nil
	}()
	return c.ask(ctx, r, w)
}

// impatient starts to charge for a call; patient ends it. The caller of patient holds c.mu.
func (c *Cache) impatient(w *waiting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.impatient != nil && !w.slow {
		w.slow = true
		c.slower(1)
	}
}

func (c *Cache) patient(w *waiting) {
	w.impatient.Stop()
	if w.slow {
		w.slow = false
		c.slower(-1)
	}
}

// ask sends a request and waits for its answer.
func (c *Cache) ask(ctx context.Context, r Request, w *waiting) (Answer, error) {
	c.mu.Lock()
	c.last++
	r.ID = c.last
	c.calls[r.ID] = w
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, r.ID)
	}()
	select {
	case c.queue <- r:
	case <-c.off:
		return Answer{}, ErrOff
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	select {
	case a := <-w.answer:
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-c.off:
		return Answer{}, ErrOff
	case <-ctx.Done():
		select {
		case c.queue <- Request{Operation: Cancel, Cancels: r.ID}:
		default: // the request ends anyway, only later
		}
		return Answer{}, ctx.Err()
	}
}

// slower updates the number of slow calls and charges patience for the time so far. The caller
// holds c.mu.
func (c *Cache) slower(by int) {
	now := time.Now()
	if c.slow > 0 {
		c.left -= now.Sub(c.since)
	}
	c.slow, c.since = c.slow+by, now
	if c.over != nil {
		c.over.Stop()
		c.over = nil
	}
	if c.slow > 0 {
		c.over = time.AfterFunc(max(0, c.left), func() { c.giveUp("it answers too slowly") })
	}
}

// saved counts a hit and returns patience for the time that it saved.
func (c *Cache) saved(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.opts.Patience
	c.left += min(max(0, d), most-c.left) // d comes from a record and may be any value
	c.stats.Hits++
}

// Records returns the records under a key. It sets their origin to the address, whatever the server
// sends. Any failure yields no records.
func (c *Cache) Records(ctx context.Context, command cache.Key) []*cache.Record {
	<-c.ready
	a, err := c.call(ctx, Request{Operation: Records, Command: command})
	if err != nil {
		c.trouble(err)
		return nil
	}
	for _, r := range a.Records {
		r.Origin = c.opts.Address
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Received += a.Bytes
	return a.Records
}

// Has reports whether the server has all outputs of a record that Records returned. It counts a hit
// or a miss.
func (c *Cache) Has(ctx context.Context, r *cache.Record) bool {
	a, err := c.call(ctx, Request{Operation: Has, Record: r})
	if err != nil {
		c.trouble(err)
	}
	if err != nil || !a.Found {
		c.Missed()
		return false
	}
	c.saved(r.Elapsed)
	return true
}

// Missed counts a lookup that found nothing.
func (c *Cache) Missed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Misses++
}

// Fetch stores the content of an output in the local store. ok is false if that failed.
func (c *Cache) Fetch(ctx context.Context, o cache.Output) (ok bool) {
	<-c.ready
	a, err := c.call(ctx, Request{Operation: Fetch, Output: &o})
	switch {
	case err != nil && a.Local:
		c.warnOnce(fmt.Sprintf("what the remote cache %s has cannot be kept here, and is built instead: %v", c.opts.Address, err))
		return false
	case err != nil:
		c.trouble(err)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Received += a.Bytes
	return a.Found
}

// Store sends a record, which the local store must have, and its outputs. It does not wait.
func (c *Cache) Store(r *cache.Record) {
	mine := *r
	mine.Origin = ""
	c.sending.Add(1)
	go func() {
		defer c.sending.Done()
		<-c.ready
		c.mu.Lock()
		readOnly := c.readOnly
		c.mu.Unlock()
		if readOnly {
			return
		}
		a, err := c.send(&mine)
		c.stored(a, err)
	}()
}

// stored handles the answer to a record that was sent.
func (c *Cache) stored(a Answer, err error) {
	c.mu.Lock()
	c.stats.Sent += a.Bytes
	if err == nil {
		c.stats.Stored++
	} else {
		c.stats.Unsent++
	}
	first := a.Denied && !c.readOnly
	c.readOnly = c.readOnly || a.Denied
	c.mu.Unlock()
	switch {
	case first:
		text := "the remote cache " + c.opts.Address + " is read only for this user: " + a.Error
		if c.opts.Anonymous {
			text += c.whoAsks()
		}
		c.warnOnce(text)
	case err != nil && !a.Denied && !errors.Is(err, ErrOff):
		c.warnOnce(fmt.Sprintf("sending to the remote cache %s: %v; building goes on", c.opts.Address, err))
	}
}

// send sends a record in the background. kbuild-remote sends several concurrently, independent of
// other requests. A refused record is retried within the limit of concurrent calls.
func (c *Cache) send(r *cache.Record) (Answer, error) {
	store := func() (Answer, error) {
		return c.ask(context.Background(), Request{Operation: Store, Record: r}, &waiting{answer: make(chan Answer, 1)})
	}
	a, err := store()
	if a.Busy {
		c.crowd.makeRoom()
	}
	for n := 1; a.Busy && n < tries; n++ {
		turn, off := c.crowd.enter(context.Background(), c.off)
		if off != nil {
			return Answer{}, off
		}
		a, err = store()
		c.crowd.leave(turn, "", 0, a.Busy)
	}
	return a, err
}

// trouble warns of an error once; the build continues without the answer.
func (c *Cache) trouble(err error) {
	if !errors.Is(err, ErrOff) && !errors.Is(err, context.Canceled) {
		c.warnOnce(fmt.Sprintf("taking from the remote cache %s: %v; building goes on", c.opts.Address, err))
	}
}

// warnOnce reports only the first problem: later ones are usually its consequences.
func (c *Cache) warnOnce(text string) {
	c.reported.Do(func() {
		if c.opts.Warn != nil {
			c.opts.Warn(text)
		}
	})
}

// Close waits for pending uploads and ends the program. It stops waiting when no progress was made
// for as long as the remaining patience.
func (c *Cache) Close() Stats {
	off := c.isOff()
	sent := make(chan struct{})
	go func() { c.sending.Wait(); close(sent) }()
	begun := time.Now()
	for moving := true; moving; {
		select {
		case <-sent:
			moving = false
		case <-c.ended:
			moving = false
		case <-time.After(free):
			c.mu.Lock()
			last, left := c.moved, max(free, c.left)
			c.mu.Unlock()
			if last.Before(begun) {
				last = begun
			}
			moving = time.Since(last) < left
		}
	}
	c.mu.Lock()
	stats := c.stats
	if !c.isOff() {
		close(c.off)
	}
	c.mu.Unlock()
	if off { // it usually waits for a server that does not answer
		c.cmd.Process.Kill()
	}
	select {
	case <-c.ended:
	case <-time.After(free):
		c.cmd.Process.Kill()
	}
	return stats
}
