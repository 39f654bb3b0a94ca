package main

import (
	"fmt"
	"slices"
	"strings"
)

// mostReplays is how often a sequence is taken again while it is shrunk.
const mostReplays = 400

// tell shrinks what led to a difference, and prints it. done are the steps of all seeds.
func (h *torture) tell(seed uint64, made []step, fault string, done int) {
	h.t.Helper()
	again := fmt.Sprintf("go test ./cmd/kbuild -run '^TestTorture$' -torture.seed=%d -torture.n=%d", seed, len(made)-1)
	if *tortureReal {
		again += " -torture.real"
	}
	h.t.Errorf("a difference after %d steps, in step %d of seed %d. The same again: %s", done, len(made)-1, seed, again)
	short, printed := h.shrink(made)
	if printed == "" {
		h.t.Errorf("%s\nIt did not come again. All steps:\n%s", fault, story(made))
		return
	}
	edits := 0
	for _, s := range short[1:] {
		edits += len(s)
	}
	h.t.Errorf("It was\n%s\nThe shortest case has %d edits after the project is there:\n%s\n%s", fault, edits, story(short), printed)
}

// shrink drops steps and edits as long as there is a difference. It gives "" if there is none from
// the start.
func (h *torture) shrink(all []step) (short []step, fault string) {
	tries := 0
	fails := func(steps []step) bool {
		if tries++; tries > mostReplays || len(steps) == 0 {
			return false
		}
		printed, _ := h.replay(steps)
		if printed != "" {
			fault = printed
		}
		return printed != ""
	}
	for range 2 { // what two processes do at once may come out otherwise
		if fault == "" {
			fails(all)
		}
	}
	if fault == "" {
		return nil, ""
	}
	setUp, later := all[0], minimal(all[1:], func(steps []step) bool { return fails(slices.Insert(slices.Clone(steps), 0, all[0])) })
	for i := range later {
		later[i] = minimal(later[i], func(s step) bool {
			steps := slices.Clone(later)
			steps[i] = s
			return fails(slices.Insert(steps, 0, setUp))
		})
	}
	setUp = minimal(setUp, func(s step) bool { return fails(slices.Insert(slices.Clone(later), 0, step(s))) })
	return slices.Insert(later, 0, setUp), fault
}

// minimal drops parts of a list, large ones first, for as long as what is left still fails.
func minimal[L ~[]E, E any](list L, fails func(L) bool) L {
	for size := max(1, len(list)/2); ; {
		dropped := false
		for at := 0; at < len(list); {
			less := slices.Delete(slices.Clone(list), at, min(len(list), at+size))
			if fails(less) {
				list, dropped = less, true
			} else {
				at += size
			}
		}
		switch {
		case size > 1:
			size /= 2
		case !dropped:
			return list
		}
	}
}

// story is steps as a person can follow them.
func story(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		if i == 0 {
			b.WriteString("At first:\n")
		} else {
			fmt.Fprintf(&b, "Step %d:\n", i)
		}
		for _, e := range s {
			fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(e.String(), "\n", "\n  "))
		}
		b.WriteString("  kbuild\n")
	}
	return b.String()
}
