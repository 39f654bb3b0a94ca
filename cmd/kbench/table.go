package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A table holds the measures of one variant.
type table struct {
	variant variant
	rows    []row
}

type row struct {
	scenario scenario
	tool     string
	timed    measure
	traced   measure
	counted  bool
}

func (t *table) add(s scenario, l *lane, m measure) {
	r := t.row(s, l.tool)
	if l.tracing {
		r.traced, r.counted = m, true
	} else {
		r.timed = m
	}
}

// row finds or adds the row of a scenario and a tool.
func (t *table) row(s scenario, tool string) *row {
	for i := range t.rows {
		if t.rows[i].scenario.name == s.name && t.rows[i].tool == tool {
			return &t.rows[i]
		}
	}
	t.rows = append(t.rows, row{scenario: s, tool: tool})
	return &t.rows[len(t.rows)-1]
}

func (t *table) print(out io.Writer, o *options) {
	if o.markdown {
		t.markdown(out, o.tools)
	} else {
		t.text(out, o.tools)
	}
}

// text prints aligned columns.
func (t *table) text(out io.Writer, tools []string) {
	fmt.Fprintf(out, "\n%s\n", t.variant.name)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range t.cells(tools) {
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	w.Flush()
}

// markdown prints a table of times with ratios to ninja's. If processes were counted, it prints a
// table of them too.
func (t *table) markdown(out io.Writer, tools []string) {
	fmt.Fprintf(out, "\n### %s\n\n| scenario | %s |\n|---%s|\n", t.variant.name, strings.Join(tools, " | "), strings.Repeat("|---:", len(tools)))
	counted := false
	for _, s := range t.scenarios() {
		cells := []string{s.title}
		for _, tool := range tools {
			r, ninja := t.row(s, tool), measure{}
			if tool != "ninja" {
				ninja = t.row(s, "ninja").timed
			}
			times := r.times(ninja)
			if r.timed.skipped || r.timed.err != nil || r.timed.wall == 0 {
				times = times[:1]
			}
			cells = append(cells, strings.Join(times, " / "))
			counted = counted || r.counted
		}
		fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |")
	}
	fmt.Fprintln(out, "\nWall / processor time in seconds, and the ratio to ninja.")
	if !counted {
		return
	}
	fmt.Fprintf(out, "\n| processes | tool | %s | all |\n|---|---%s|---:|\n", strings.Join(kinds, " | "), strings.Repeat("|---:", len(kinds)))
	for _, s := range t.scenarios() {
		for _, tool := range tools {
			fmt.Fprintln(out, "| "+strings.Join(append([]string{s.title, tool}, t.row(s, tool).processes()...), " | ")+" |")
		}
	}
}

// scenarios returns the scenarios that ran, in order.
func (t *table) scenarios() []scenario {
	var out []scenario
	for _, r := range t.rows {
		if !slices.ContainsFunc(out, func(s scenario) bool { return s.name == r.scenario.name }) {
			out = append(out, r.scenario)
		}
	}
	return out
}

// cells returns the heading and the rows. Scenarios are in the order in which they ran, tools in
// the requested order.
func (t *table) cells(tools []string) [][]string {
	counted := false
	for _, r := range t.rows {
		counted = counted || r.counted
	}
	heading := []string{"scenario", "tool", "wall s", "CPU s"}
	if counted {
		heading = append(append(heading, kinds...), "all")
	}
	all := [][]string{heading}
	for _, at := range t.scenarios() {
		for i, tool := range tools {
			title := ""
			if i == 0 {
				title = at.title
			}
			r := t.row(at, tool)
			cells := append([]string{title, tool}, r.times(measure{})...)
			if counted {
				cells = append(cells, r.processes()...)
			}
			all = append(all, cells)
		}
	}
	return all
}

// times returns wall and CPU time, with ratios to ninja's if it was measured.
func (r *row) times(ninja measure) []string {
	switch m := r.timed; {
	case m.skipped:
		return []string{"-", "-"}
	case m.err != nil:
		return []string{"fails", "fails"}
	case m.wall == 0: // not measured
		return []string{"", ""}
	default:
		wall, cpu := seconds(m.wall.Seconds(), ninja.wall.Seconds()), seconds(m.cpu.Seconds(), ninja.cpu.Seconds())
		if m.stale != "" {
			wall = "STALE " + m.stale + " " + wall
		}
		return []string{wall, cpu}
	}
}

func seconds(s, base float64) string {
	if base == 0 {
		return fmt.Sprintf("%.2f", s)
	}
	return fmt.Sprintf("%.2f (%.2fx)", s, s/base)
}

func (r *row) processes() []string {
	var cells []string
	for _, k := range append(kinds[:len(kinds):len(kinds)], "all") {
		switch {
		case !r.counted || r.traced.skipped || r.traced.err != nil:
			cells = append(cells, "-")
		default:
			cells = append(cells, strconv.Itoa(r.traced.processes[k]))
		}
	}
	return cells
}

// verdict returns an error if kbuild failed or left stale outputs. For other tools these are
// results.
func (t *table) verdict() error {
	for _, r := range t.rows {
		for _, m := range []measure{r.timed, r.traced} {
			if r.tool == "kbuild" && m.err != nil {
				return fmt.Errorf("%s: %w", r.scenario.title, m.err)
			}
			if r.tool == "kbuild" && m.stale != "" {
				return fmt.Errorf("%s: kbuild left stale %s", r.scenario.title, m.stale)
			}
		}
	}
	return nil
}
