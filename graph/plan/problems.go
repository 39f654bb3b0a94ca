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

func (b *problems) errorf(pos manifest.Pos, detail, format string, args ...any) {
	b.add(Problem{Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (b *problems) warnf(pos manifest.Pos, detail, format string, args ...any) {
	b.add(Problem{Warning: true, Pos: pos, Summary: fmt.Sprintf(format, args...), Detail: detail})
}

func (b *problems) add(p Problem) {
	if b.reported[p] {
		return
	}
	if b.reported == nil {
		b.reported = map[Problem]bool{}
	}
	b.reported[p] = true
	b.list = append(b.list, p)
	b.failed = b.failed || !p.Warning
}
