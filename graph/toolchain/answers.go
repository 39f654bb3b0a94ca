package toolchain

import (
	"errors"
	"regexp"
	"sync"

	"github.com/kbuild-dev/kbuild/graph"
)

// Answers holds the output of dry runs, which are among the facts of a plan, and what was parsed
// from it. A query without an answer is added to Questions, so that the next plan has its answer.
type Answers struct {
	Runs      map[string]DryRun // by Question.Key
	Questions []Question
	learned   map[string]learned // by Question.Key: all sources of a target share one query
}

// learned is the result of parsing a dry run: its passes or an error.
type learned struct {
	passes any
	err    error
}

// text returns the output of a dry run. If there is none, it records the query.
func (a *Answers) text(q Question) (string, error) {
	run, ok := a.Runs[q.Key()]
	switch {
	case !ok:
		a.Questions = append(a.Questions, q)
		return "", ErrNotQueried
	case run.SplitFailure != "":
		return "", errors.New(run.SplitFailure)
	case run.Error != "":
		return "", DriverError{q.By, run.Error}
	}
	return run.Text, nil
}

// ErrNotQueried reports a command whose dry run is not known yet.
var ErrNotQueried = errors.New("it was not asked for its steps")

// DriverError is the error that a driver printed instead of its steps.
type DriverError struct{ by, Printed string }

func (e DriverError) Error() string { return e.by + ": " + e.Printed }

// Learn returns the passes that read parses from the dry run of q. Each dry run is parsed once.
func Learn[P any](a *Answers, q Question, read func(text string) (*P, error)) (*P, error) {
	l, ok := a.learned[q.Key()]
	if !ok {
		text, err := a.text(q)
		var passes *P
		if err == nil {
			passes, err = read(text)
		}
		l = learned{passes, err}
		if a.learned == nil {
			a.learned = map[string]learned{}
		}
		a.learned[q.Key()] = l
	}
	return l.passes.(*P), l.err
}

// OptOut is the setting by which the user disabled splitting.
type OptOut string

func (o OptOut) Error() string { return string(o) }

// OptedOut returns the OptOut that applies to t, or nil.
func (b *Build) OptedOut(t *Target) error {
	switch {
	case b.NoSplit:
		return OptOut("--no-split")
	case t.Split != nil && !*t.Split:
		return OptOut("split = false")
	}
	return nil
}

// Unsplit records in the driver of a command why it stays unsplit.
func Unsplit(d *graph.Driver, why error) {
	d.UnsplitReason, d.Fallback = why.Error(), !errors.As(why, new(OptOut))
}

// FromClang reports whether the answer is that of a clang, which may depend on option files that
// the question names absolutely.
func (q Question) FromClang() bool { return q.Tool != "nvcc" }

// Read returns the answer in the output of a driver, and the device libraries that it names.
// refused reports that the driver refused with status 0.
func (q Question) Read(output string) (answer string, libs []string, refused bool) {
	if !q.FromClang() {
		return output, nil, false
	}
	answer = escapedByte().ReplaceAllString(output, "$1") // as JSON the text must be UTF-8
	for _, m := range deviceLibRE().FindAllStringSubmatch(answer, -1) {
		libs = append(libs, m[1])
	}
	return answer, libs, refusal().MatchString(answer)
}

// escapedByte matches hipcc's escape of a byte of a non-ASCII character.
var escapedByte = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\([^\x00-\x7f])`) })

// refusal matches the start of an error of clang's driver. The driver prints the name that it was
// called by: clang, and since 17 in Debian clang++-17.
var refusal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^(?:\S*/)?clang(?:\+\+)?(?:-\d+)?: error: `) })

// deviceLibRE matches the device libraries that an answer of clang names.
var deviceLibRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"-mlink-builtin-bitcode" "([^"]*)"`)
})
