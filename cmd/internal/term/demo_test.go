package term

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/sched"
	"github.com/kbuild-dev/kbuild/graph"
)

// TestDemo plays a run on the real terminal, for looking at:
//
//	go test -c -o term.test ./cmd/internal/term && KBUILD_TERM_DEMO=1 ./term.test -test.run TestDemo
func TestDemo(t *testing.T) {
	if os.Getenv("KBUILD_TERM_DEMO") == "" {
		t.Skip("KBUILD_TERM_DEMO=1 plays a run on this terminal")
	}
	var plan []*graph.Action
	for i := range 24 {
		plan = append(plan, action(i, graph.Compile, fmt.Sprintf("src/solver/part%02d.cu", i), "lto_80", "lto_90"))
	}
	p := New(Options{Jobs: 6, Actions: plan, Expected: func(*graph.Action) (time.Duration, bool) { return 1200 * time.Millisecond, true }})
	p.Start(len(plan))
	begin := time.Now()
	for i := range len(plan) + 6 {
		if i < len(plan) {
			p.Started(plan[i])
		}
		time.Sleep(200 * time.Millisecond)
		if i < 6 {
			continue
		}
		r := sched.Result{Status: sched.Ran, Elapsed: 1200 * time.Millisecond}
		switch i {
		case 12:
			r.Output = []byte("src/solver/part06.cu(7): warning #177-D: variable \"x\" was declared but never referenced\n")
		case 18:
			r = sched.Result{Status: sched.Failed, Err: errors.New("exit status 2"), Reason: "input include/solver.h changed",
				Output: []byte("src/solver/part12.cu(3): error: identifier \"foo\" is undefined\n")}
		}
		p.Finished(plan[i-6], r, i-5, len(plan))
	}
	p.Finish(sched.Summary{Actions: 24, Ran: 23, Failed: 1}, time.Since(begin))
}
