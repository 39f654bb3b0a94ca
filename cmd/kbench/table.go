package main

import (
	"fmt"
	"io"
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

// row finds or makes the row of a scenario and a tool.
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
	for _, cells := range t.cells(tools, false) {
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	w.Flush()
}

// markdown prints the table with ratios to ninja.
func (t *table) markdown(out io.Writer, tools []string) {
	rows := t.cells(tools, true)
	fmt.Fprintf(out, "\n### %s\n\n", t.variant.name)
	for i, cells := range rows {
		fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 {
			fmt.Fprintln(out, "|---|---|"+strings.Repeat("---:|", len(cells)-2))
		}
	}
}

// cells are the heading and the rows: scenarios in the order they ran, tools in the order asked for.
func (t *table) cells(tools []string, ratios bool) [][]string {
	counted := false
	for _, r := range t.rows {
		counted = counted || r.counted
	}
	heading := []string{"scenario", "tool", "wall s", "CPU s"}
	if counted {
		heading = append(append(heading, kinds...), "all")
	}
	all := [][]string{heading}
	last := ""
	for _, at := range t.rows {
		if at.scenario.name == last {
			continue
		}
		last = at.scenario.name
		for i, tool := range tools {
			title := ""
			if i == 0 {
				title = at.scenario.title
			}
			r, ninja := t.row(at.scenario, tool), measure{}
			if ratios && tool != "ninja" {
				ninja = t.row(at.scenario, "ninja").timed
			}
			cells := append([]string{title, tool}, r.times(ninja)...)
			if counted {
				cells = append(cells, r.processes()...)
			}
			all = append(all, cells)
		}
	}
	return all
}

// times are wall and CPU, with ratios to ninja's where it was measured.
func (r *row) times(ninja measure) []string {
	switch m := r.timed; {
	case m.skipped:
		return []string{"-", "-"}
	case m.err != nil:
		return []string{"fails", "fails"}
	case m.wall == 0: // never measured
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

// verdict is an error when kbuild failed or left something stale; what the others do is a result.
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
