package plan

import (
	"fmt"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// Problem is something a user must mend before, or (Warning) should know.
type Problem struct {
	Warning bool
	Pos     manifest.Pos
	Summary string       // what is wrong
	Detail  string       // what to do
	Also    manifest.Pos // the second place where two disagree
	AlsoSay string       // what is there
}

// problems are those of a plan, each once: a fault of a shared library is found by each of its users.
type problems struct {
	list     []Problem
	reported map[Problem]bool
	failed   bool // one of them is an error
}

func (ps *problems) errorf(pos manifest.Pos, detail, format string, args ...any) {
	ps.add(Problem{Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (ps *problems) warnf(pos manifest.Pos, detail, format string, args ...any) {
	ps.add(Problem{Warning: true, Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (ps *problems) add(p Problem) {
	if ps.reported[p] {
		return
	}
	if ps.reported == nil {
		ps.reported = map[Problem]bool{}
	}
	ps.reported[p] = true
	ps.list = append(ps.list, p)
	ps.failed = ps.failed || !p.Warning
}
