package plan

import (
	"errors"

	"github.com/kbuild-dev/kbuild/graph/compiler"
)

// What drivers answer to the questions for their steps is among the facts; a question that is not
// answered is asked for the next plan.

// answers are what drivers said, and what was learned of it.
type answers struct {
	runs      map[string]DryRun // by Question.Key
	questions []compiler.Question
	learned   map[string]learned // by Question.Key: all sources of a target ask the same question
}

// learned are the passes of an answer, or why there are none.
type learned struct {
	passes any
	err    error
}

// text looks an answer up.
func (a *answers) text(q compiler.Question) (string, error) {
	run, ok := a.runs[q.Key()]
	switch {
	case !ok:
		a.questions = append(a.questions, q)
		return "", errNotAsked
	case run.Misparsed != "":
		return "", errors.New(run.Misparsed)
	case run.Error != "":
		return "", driverError{q.Tool, run.Error}
	}
	return run.Text, nil
}

var errNotAsked = errors.New("it was not asked for its steps")

// driverError is a driver's error in place of its steps.
type driverError struct{ tool, said string }

func (e driverError) Error() string {
	return map[string]string{"nvcc": "nvcc --dryrun", "hip": "hipcc -###", "clang": "clang -###"}[e.tool] + ": " + e.said
}

// learn has an answer read once for all that ask the same.
func learn[P any](a *answers, q compiler.Question, read func(string) (*P, error)) (*P, error) {
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
