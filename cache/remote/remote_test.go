package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cache"
)

// The test binary is kbuild-remote too: PRETEND says how it behaves.
func TestMain(m *testing.M) {
	if how := os.Getenv("PRETEND"); how != "" {
		pretend(how)
		return
	}
	os.Exit(m.Run())
}

var sample = &cache.Record{Command: cache.Key{1}, Outputs: []cache.Output{{Path: "a.o", Digest: cache.Digest{2}, Size: 7}}, Elapsed: time.Second}

// pretend answers as a program does that has a record, or in a way named.
func pretend(how string) {
	enc, dec := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	asked := 0
	for {
		var r Request
		if dec.Decode(&r) != nil {
			return
		}
		a := Answer{ID: r.ID, Found: true}
		asked++
		switch {
		case r.Operation != Hello && (how == "busy" || how == "busy each other time" && asked%2 == 0):
			a = Answer{ID: r.ID, Error: fmt.Sprintf("too many calls, %d by now", asked-1), Busy: true}
		case r.Operation == Hello && how == "refused":
			a = Answer{ID: r.ID, Error: "connection refused"}
		case r.Operation == Hello && how == "told":
			a = Answer{ID: r.ID, Error: strings.Join(slices.DeleteFunc(os.Environ(), func(e string) bool { return !strings.HasPrefix(e, "KBUILD_REMOTE") }), " ")}
		case r.Operation == Hello && how == "unknown":
			a = Answer{ID: r.ID, Error: "who are you", Denied: true}
		case r.Operation == Hello && how == "silent", r.Operation == Records && how == "stops":
			tooltest.Hang()
		case r.Operation == Hello && how == "deaf":
			enc.Encode(a)
			tooltest.Hang()
		case r.Operation == Records && how == "dies":
			return
		case r.Operation == Records && how == "garbage":
			os.Stdout.WriteString("no JSON\n")
			continue
		case r.Operation == Records && how == "fails":
			a = Answer{ID: r.ID, Error: "wrong answer"}
		case r.Operation == Has && how == "forgot":
			a.Found = false
		case r.Operation == Has && how == "cannot say":
			a = Answer{ID: r.ID, Error: "wrong answer"}
		case r.Operation == Fetch && how == "full":
			a = Answer{ID: r.ID, Error: "no space left", Local: true}
		case r.Operation == Fetch && how == "cannot give":
			a = Answer{ID: r.ID, Error: "wrong answer"}
		case r.Operation == Store && how == "denied":
			a = Answer{ID: r.ID, Error: "not you", Denied: true}
		case r.Operation == Store && how == "full":
			a = Answer{ID: r.ID, Error: "no space left"}
		case r.Operation == Store && how == "takes nothing":
			continue
		case r.Operation == Store && how == "takes it slowly":
			for range 3 {
				enc.Encode(Answer{Moves: true})
			}
			a.Bytes = 7
		case r.Operation == Store && r.Record.Origin != "":
			a = Answer{ID: r.ID, Error: "the origin of a record is for this machine alone"}
		case r.Operation == Records:
			forged := *sample
			forged.Origin = os.Getenv("FORGED")
			a.Records = []*cache.Record{&forged}
		case r.Operation == Fetch, r.Operation == Store:
			a.Bytes = 7
		case r.Operation == Hello && how == "executes":
			a.Executes = true
		case r.Operation == Execute && r.Run.Argv[0] == "hangs":
			continue
		case r.Operation == Execute:
			a = ended(r.ID, r.Run.Argv[0])
		case r.Operation == Cancel:
			continue
		}
		enc.Encode(a)
	}
}

// printed keeps warnings.
type printed struct {
	mu   sync.Mutex
	list []string
}

func (s *printed) warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, text)
}

func (s *printed) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.list, "; ")
}

func start(t *testing.T, how string, readOnly bool, patience time.Duration) (*Cache, *printed) {
	t.Helper()
	t.Setenv("PRETEND", how)
	s := &printed{}
	c, err := Start(Options{Program: os.Args[0], Address: "grpc://cache", ReadOnly: readOnly, Patience: patience, Warn: s.warn})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func TestHit(t *testing.T) {
	c, s := start(t, "well", false, time.Hour)
	recs := c.Records(t.Context(), sample.Command)
	from := *sample
	from.Origin = "grpc://cache"
	if diff := cmp.Diff([]*cache.Record{&from}, recs); diff != "" {
		t.Fatal(diff)
	}
	if !c.Has(t.Context(), recs[0]) || !c.Fetch(t.Context(), recs[0].Outputs[0]) {
		t.Error("what the server has cannot be had")
	}
	c.Missed()
	c.Store(recs[0])
	want := Stats{Hits: 1, Misses: 1, Received: 7, Sent: 7, Stored: 1}
	if got := c.Close(); got != want || s.all() != "" {
		t.Errorf("%+v, want %+v; %s", got, want, s.all())
	}
}

// Where a record came from is for this machine to say, whatever the server says.
func TestForgedOrigin(t *testing.T) {
	t.Setenv("FORGED", "grpc://another")
	c, _ := start(t, "well", false, time.Hour)
	defer c.Close()
	if r := c.Records(t.Context(), sample.Command)[0]; r.Origin != "grpc://cache" {
		t.Errorf("it comes from %q", r.Origin)
	}
}

// However kbuild-remote or the server behaves, there are no records, one warning, and an end.
func TestTrouble(t *testing.T) {
	const off = "the remote cache grpc://cache is not used for the rest of this build: "
	for how, want := range map[string]string{
		"refused": off + "connection refused", "silent": off + "it answers too slowly", "stops": off + "it answers too slowly",
		"deaf": off + "it answers too slowly", "dies": off + "kbuild-remote ended", "garbage": off + "kbuild-remote ended",
		"unknown": off + "who are you; it wants to know who asks: set KBUILD_REMOTE_TOKEN_FILE, KBUILD_REMOTE_PASSWORD_FILE or KBUILD_REMOTE_CREDENTIAL_HELPER",
		"fails":   "taking from the remote cache grpc://cache: wrong answer; building goes on",
	} {
		t.Run(how, func(t *testing.T) {
			patience := time.Hour
			if strings.HasSuffix(want, "too slowly") {
				patience = time.Nanosecond
			}
			c, s := start(t, how, false, patience)
			var all sync.WaitGroup
			for range 300 { // more than the pipe to it holds
				all.Go(func() {
					if recs := c.Records(t.Context(), sample.Command); len(recs) > 0 {
						t.Error("there are records")
					}
				})
				c.Store(sample)
			}
			all.Wait()
			c.Close()
			if got := s.all(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// That a server only keeps things is one warning, and what goes wrong with it another.
func TestRunsNothing(t *testing.T) {
	t.Setenv("PRETEND", "full")
	s := &printed{}
	c, err := Start(Options{Program: os.Args[0], Address: "grpc://cache", Execute: true, Patience: time.Hour, Warn: s.warn})
	if err != nil {
		t.Fatal(err)
	}
	c.Store(sample)
	c.Close()
	want := "the server grpc://cache runs no commands: all of them run here; sending to the remote cache grpc://cache: no space left; building goes on"
	if got := s.all(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A record whose outputs are gone is a miss, and is counted as one.
func TestForgotten(t *testing.T) {
	for _, how := range []string{"forgot", "cannot say"} {
		c, _ := start(t, how, false, time.Hour)
		if c.Has(t.Context(), sample) {
			t.Errorf("%s: found", how)
		}
		if s := c.Close(); s.Hits != 0 || s.Misses != 1 {
			t.Errorf("%s: %d hits and %d misses, want one miss", how, s.Hits, s.Misses)
		}
	}
}

// What cannot be fetched is told as trouble of this machine, where it is, and else as that of the
// server.
func TestFetchFails(t *testing.T) {
	for how, want := range map[string]string{
		"full":        "what the remote cache grpc://cache has cannot be kept here, and is built instead: no space left",
		"cannot give": "taking from the remote cache grpc://cache: wrong answer; building goes on",
	} {
		c, s := start(t, how, false, time.Hour)
		for range 2 {
			if c.Fetch(t.Context(), sample.Outputs[0]) {
				t.Errorf("%s: fetched", how)
			}
		}
		if c.Close(); s.all() != want {
			t.Errorf("%s: %q, want %q", how, s.all(), want)
		}
	}
}

// A record may claim any time: no claim takes patience away.
func TestSavedNonsense(t *testing.T) {
	for _, d := range []time.Duration{1<<63 - 1, -time.Hour} {
		c := &Cache{opts: Options{Patience: patience}, left: time.Millisecond}
		if c.saved(d); c.left < time.Millisecond || c.left > patience {
			t.Errorf("after a hit that claims %v, patience is %v", d, c.left)
		}
	}
}

// A server that is not to learn who asks does not, and who asks learns why it refuses him.
func TestAnonymous(t *testing.T) {
	const listed = "; credentials are sent to the servers in KBUILD_REMOTE_HOSTS alone, and cache:80 is none of them"
	for _, name := range []string{"TOKEN_FILE", "PASSWORD_FILE", "CREDENTIAL_HELPER", "CERT", "KEY", "CA", "OF_LATER"} {
		t.Setenv("KBUILD_REMOTE_"+name, "x")
	}
	for how, want := range map[string]string{
		"told":    "the remote cache grpc://cache is not used for the rest of this build: KBUILD_REMOTE_CA=x",
		"unknown": "the remote cache grpc://cache is not used for the rest of this build: who are you" + listed,
		"denied":  "the remote cache grpc://cache is read only for this user: not you" + listed,
	} {
		t.Setenv("PRETEND", how)
		s := &printed{}
		c, err := Start(Options{Program: os.Args[0], Address: "grpc://cache", Server: "cache:80", Anonymous: true, Patience: time.Hour, Warn: s.warn})
		if err != nil {
			t.Fatal(err)
		}
		c.Store(sample)
		c.sending.Wait()
		c.Close()
		if got := s.all(); got != want {
			t.Errorf("%s: %q, want %q", how, got, want)
		}
	}
}

func TestReadOnly(t *testing.T) {
	c, s := start(t, "denied", false, time.Hour)
	for range 3 {
		c.Store(sample)
		c.sending.Wait()
	}
	if got := c.Close(); got.Unsent != 1 || s.all() != "the remote cache grpc://cache is read only for this user: not you" {
		t.Errorf("refused: %+v; %s", got, s.all())
	}
	c, s = start(t, "full", false, time.Hour)
	c.Store(sample)
	c.Store(sample)
	if got := c.Close(); got.Unsent != 2 || s.all() != "sending to the remote cache grpc://cache: no space left; building goes on" {
		t.Errorf("full: %+v; %s", got, s.all())
	}
	c, s = start(t, "well", true, time.Hour)
	c.Store(sample)
	if got := c.Close(); got != (Stats{}) || s.all() != "" {
		t.Errorf("asked for: %+v; %s", got, s.all())
	}
}

// Who does not wait any more is answered at once, and the cache stays.
func TestInterrupted(t *testing.T) {
	c, s := start(t, "stops", false, time.Hour)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if recs := c.Records(ctx, sample.Command); recs != nil || s.all() != "" || c.isOff() {
		t.Errorf("%v; %s", recs, s.all())
	}
}

// A server that takes nothing any more does not hold the end of a build, and one that takes it
// slowly does.
func TestFlush(t *testing.T) {
	c, _ := start(t, "takes nothing", false, time.Nanosecond)
	c.Store(sample)
	<-c.ready
	if got := c.Close(); got.Stored != 0 {
		t.Errorf("%+v", got)
	}
	c, _ = start(t, "takes nothing", false, time.Hour)
	c.Store(sample)
	<-c.ready
	c.mu.Lock()
	c.left = 0 // the build has waited for an hour
	c.mu.Unlock()
	if got := c.Close(); got.Stored != 0 {
		t.Errorf("%+v", got)
	}
	c, _ = start(t, "takes it slowly", false, time.Hour)
	c.Store(sample)
	if got := c.Close(); got.Stored != 1 || got.Sent != 7 {
		t.Errorf("%+v", got)
	}
}

func TestNoProgram(t *testing.T) {
	_, err := Start(Options{Program: "/nonexistent/kbuild-remote"})
	if err == nil || !slices.Contains(strings.Fields(err.Error()), "kbuild-remote:") {
		t.Errorf("%v", err)
	}
}

// What comes slowly, but comes, costs no patience.
func TestMoves(t *testing.T) {
	w := &waiting{answer: make(chan Answer, 1), impatient: time.AfterFunc(time.Hour, func() {})}
	c := &Cache{left: time.Hour, off: make(chan struct{}), calls: map[int]*waiting{7: w}}
	for range 2 {
		c.impatient(w) // its time is over
		if !w.slow || c.slow != 1 {
			t.Fatal("a call that takes long is not slow")
		}
		if c.answer(Answer{ID: 7, Moves: true}); w.slow || c.slow != 0 || len(w.answer) != 0 {
			t.Fatal("a call is slow though something came")
		}
	}
	if c.answer(Answer{ID: 7}); len(w.answer) != 1 {
		t.Error("the answer is gone")
	}
	w.impatient.Stop()
}
