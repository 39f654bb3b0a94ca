package plan

import (
	"errors"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Dry runs of compiler drivers are among the facts. A query that the facts do not answer is
// returned with the plan, so that the next plan has its answer.

// answers holds the dry runs and the passes that were parsed from them.
type answers struct {
	runs      map[string]DryRun // by Question.Key
	questions []toolchain.Question
	learned   map[string]learned // by Question.Key: all sources of a target share one query
}

// learned is the result of parsing a dry run: its passes or an error.
type learned struct {
	passes any
	err    error
}

// text returns the output of a dry run. If there is none, it records the query.
func (a *answers) text(q toolchain.Question) (string, error) {
	run, ok := a.runs[q.Key()]
	switch {
	case !ok:
		a.questions = append(a.questions, q)
		return "", errNotQueried
	case run.Misparsed != "":
		return "", errors.New(run.Misparsed)
	case run.Error != "":
		return "", driverError{q.Tool, run.Error}
	}
	return run.Text, nil
}

var errNotQueried = errors.New("it was not asked for its steps")

// driverError is the error that a driver printed instead of its steps.
type driverError struct{ tool, printed string }

func (e driverError) Error() string {
	return map[string]string{"nvcc": "nvcc --dryrun", "hip": "hipcc -###", "clang": "clang -###"}[e.tool] + ": " + e.printed
}

// learn returns the passes that read parses from the dry run of q. Each dry run is parsed once.
func learn[P any](a *answers, q toolchain.Question, read func(string) (*P, error)) (*P, error) {
	l, ok := a.learned[q.Key()]
	if !ok {
		text, err := a.text(q)
		var passes *P
		if err == nil {
			passes, err = read(text)
		}
		l = learned{passes, err}
		a.learned[q.Key()] = l
	}
	return l.passes.(*P), l.err
}
