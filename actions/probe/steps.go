package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Steps remembers the output of nvcc --dryrun, hipcc -### and clang -### for some tools and one
// environment. It is a trace (cache/trace): an answer of clang depends on the option files that its
// question names, and on the device libraries that it names itself. If one of them has changed, the
// tools are queried again.
type Steps struct {
	Runs map[string]toolchain.DryRun // by toolchain.Question.Key

	// fleeting holds queries whose answers are not saved: failures of the moment, and refusals of
	// clang.
	fleeting map[string]bool
	facts    plan.Facts // with the tools
	env      []string   // complete
	file     string
	key      cache.Key
	host     *hostEnv // what the answers depend on
}

// OpenSteps reads the answers that the folder dir holds. env is the complete environment that the
// tools of f get; keyEnv is the part of it that can change an answer.
func OpenSteps(dir string, f plan.Facts, env, keyEnv []string) *Steps {
	s := &Steps{Runs: map[string]toolchain.DryRun{}, fleeting: map[string]bool{}, facts: f, env: env,
		host: newHostEnv(context.Background(), "")}
	if len(f.Tools()) == 0 {
		return s
	}
	name := "steps-" + f.Fingerprint(keyEnv)
	s.file, s.key = filepath.Join(dir, name+".trace"), sha256.Sum256([]byte(name))
	value, observed, ok := trace.Load(s.file, s.key, "/")
	if !ok || json.Unmarshal(value, &s.Runs) != nil {
		s.Runs = map[string]toolchain.DryRun{}
		return s
	}
	for _, o := range observed {
		s.host.observer.Observe(o)
	}
	return s
}

// Query queries the tools and remembers the answers.
func (s *Steps) Query(ctx context.Context, questions []toolchain.Question) error {
	for _, q := range questions {
		if q.FromClang() {
			s.host.readsNamed(q.Args) // before the driver reads them
		}
	}
	answers := make([]toolchain.DryRun, len(questions))
	fleeting := make([]bool, len(questions))
	var g errgroup.Group
	g.SetLimit(4)
	for i, q := range questions {
		g.Go(func() error {
			answers[i], fleeting[i] = s.ask(ctx, q)
			return nil
		})
	}
	g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, q := range questions {
		s.Runs[q.Key()], s.fleeting[q.Key()] = answers[i], fleeting[i]
		_, libs, _ := q.Read(answers[i].Text)
		for _, file := range libs {
			s.host.reads(file) // if one is gone, the libraries were moved
		}
	}
	s.save()
	return nil
}

// readsNamed records the files that arguments name absolutely: options in them change an answer.
func (h *hostEnv) readsNamed(args []string) {
	for _, a := range args {
		for _, name := range strings.FieldsFunc(a, func(c rune) bool { return c == '=' || c == '@' }) {
			if filepath.IsAbs(name) {
				h.reads(filepath.Clean(name))
			}
		}
	}
}

// ask runs a driver. fleeting reports that the answer must not be saved.
func (s *Steps) ask(ctx context.Context, q toolchain.Question) (answer toolchain.DryRun, fleeting bool) {
	input := ""
	if q.Offload != nil {
		input = string(fatbin.EmptyOffload(q.Offload))
	}
	program := cmp.Or(q.Program, s.facts.Tools()[q.Tool].Path)
	r := runCommand(ctx, s.facts.QueryEnv(q.Tool, s.env), find.Command{Argv: append([]string{program}, q.Args...),
		Files: map[string]string{vendors.QuerySource: "", toolchain.QueryInput: input}})
	text, _, refused := q.Read(r.Text)
	switch {
	case errors.As(r.Err, new(TempError)):
		return toolchain.DryRun{Error: r.Err.Error()}, true
	case r.Err != nil:
		return toolchain.DryRun{Error: strings.TrimSpace(fmt.Sprintf("%v: %s", r.Err, find.Complaint(text)))}, q.FromClang() || isTrouble(r.Err)
	case refused:
		return toolchain.DryRun{Error: find.Complaint(text)}, true
	}
	return toolchain.DryRun{Text: text}, false
}

// NoteSplitFailure records that an answer was misparsed, and why: the tool runs as one command in this
// project. The answer is not saved, so other projects query again.
func (s *Steps) NoteSplitFailure(question, why string) {
	s.fleeting[question] = true
	s.Runs[question] = toolchain.DryRun{SplitFailure: why}
}

// Observed returns what the answers depend on. ok is false if that is not known.
func (s *Steps) Observed() (observed []cache.Observation, ok bool) { return s.host.observed() }

// save is best effort. It omits failures of the moment and refusals, which are queried again.
func (s *Steps) save() {
	lasting := maps.Clone(s.Runs)
	maps.DeleteFunc(lasting, func(question string, _ toolchain.DryRun) bool { return s.fleeting[question] })
	value, err := json.Marshal(lasting)
	if list, ok := s.host.observed(); ok && err == nil {
		trace.Save(s.file, s.key, value, slices.Clone(list))
	}
}
