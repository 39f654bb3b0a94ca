package probe

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kbuild-dev/kbuild/graph/plan"
)

// Steps remembers what nvcc --dryrun said, for one toolkit and one environment. It is only a memo: without
// its file nvcc is asked again.
type Steps struct {
	Runs map[string]plan.DryRun // by plan.Question

	fleeting   map[string]bool // questions that got no answer for trouble of the moment
	nvcc, file string
	text       []byte
	env        []string
}

// OpenSteps reads what is remembered in the folder dir. env is the complete environment that nvcc gets,
// keyEnv the part of it that can change an answer.
func OpenSteps(dir string, k *plan.Toolkit, env, keyEnv []string) *Steps {
	s := &Steps{Runs: map[string]plan.DryRun{}, fleeting: map[string]bool{}, env: env}
	if k == nil {
		return s
	}
	s.nvcc = k.NVCC.Path
	sum := sha256.Sum256([]byte(strings.Join(append([]string{k.NVCC.Path, k.NVCC.ID}, keyEnv...), "\x00")))
	s.file = filepath.Join(dir, fmt.Sprintf("steps-%x.json", sum[:12]))
	if sealed, err := os.ReadFile(s.file); err == nil {
		s.text = sealed
		if text, ok := unseal(filepath.Base(s.file), sealed); !ok || json.Unmarshal(text, &s.Runs) != nil {
			s.Runs = map[string]plan.DryRun{}
		}
	}
	return s
}

// Ask puts questions to nvcc and remembers the answers.
func (s *Steps) Ask(ctx context.Context, questions [][]string) error {
	answers := make([]plan.DryRun, len(questions))
	trouble := make([]bool, len(questions))
	var g errgroup.Group
	g.SetLimit(4)
	for i, q := range questions {
		g.Go(func() error {
			answers[i], trouble[i] = s.ask(ctx, q)
			return nil
		})
	}
	g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, q := range questions {
		key := plan.Question(q)
		s.Runs[key], s.fleeting[key] = answers[i], trouble[i]
	}
	s.save()
	return nil
}

func (s *Steps) ask(ctx context.Context, question []string) (answer plan.DryRun, trouble bool) {
	dir, err := os.MkdirTemp("", "kbuild-ask-")
	if err != nil {
		return plan.DryRun{Error: err.Error()}, true
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, s.nvcc, question...)
	cmd.Dir, cmd.Env = dir, append(s.env[:len(s.env):len(s.env)], "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), dir+"/", "")
	if err != nil {
		return plan.DryRun{Error: strings.TrimSpace(fmt.Sprintf("%v: %s", err, lastLine(text)))}, isTrouble(err)
	}
	return plan.DryRun{Text: text}, false
}

// Misread notes that an answer was understood wrongly: nvcc then runs as one command, now and later.
func (s *Steps) Misread(question string) {
	s.fleeting[question] = false
	s.Runs[question] = plan.DryRun{Error: "a pass that it shows failed, and nvcc as one command did not"}
	s.save()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Remembered is the file that holds the answers, "" without a toolkit, and its text as it was last read or written.
func (s *Steps) Remembered() (file string, text []byte) { return s.file, s.text }

// save is best effort. What nvcc could not be asked for a moment is asked again.
func (s *Steps) save() {
	lasting := maps.Clone(s.Runs)
	maps.DeleteFunc(lasting, func(question string, _ plan.DryRun) bool { return s.fleeting[question] })
	text, err := json.Marshal(lasting)
	if err != nil || os.MkdirAll(filepath.Dir(s.file), 0o777) != nil {
		return
	}
	s.text = seal(filepath.Base(s.file), text)
	replaceFile(s.file, s.text)
}
