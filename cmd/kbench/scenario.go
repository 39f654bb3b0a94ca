package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A scenario edits a lane's tree, starting from the state of the previous scenario. The build after
// it is measured.
type scenario struct {
	name, title string
	apply       func(*lane) error
	elsewhere   bool // build in another folder with the same cache
	sm90        bool // check the SASS: the edit affects only sm_90 code
}

// The edits of source files. All except lineEdit keep the number of lines.
var (
	commentEdit = edit{"src/math.cu", "that the other files call.", "that the other files call, all small."}
	lineEdit    = edit{"src/common.cuh", "#pragma once\n", "#pragma once\n// One line more.\n"}
	sm90Edit    = edit{"src/math.cu", "0x5eed001", "0x5eed002"}
	hostEdit    = edit{"src/gemm.cu", "kbench host text 1", "kbench host text 2"}
)

var scenarios = []scenario{
	{name: "cold", title: "cold", apply: func(*lane) error { return nil }},
	{name: "clean", title: "clean rebuild", apply: (*lane).removeOutputs},
	{name: "second", title: "second checkout", apply: func(*lane) error { return nil }, elsewhere: true},
	{name: "add", title: "add an architecture", apply: (*lane).addArch},
	{name: "remove", title: "remove an architecture", apply: (*lane).removeArch},
	{name: "comment", title: "comment in one source", apply: editing(commentEdit)},
	{name: "line", title: "line inserted in a shared header", apply: editing(lineEdit)},
	{name: "sm90", title: "sm_90-only edit", apply: editing(sm90Edit), sm90: true},
	{name: "host", title: "host-only edit", apply: editing(hostEdit)},
	{name: "touch", title: "touch", apply: (*lane).touch},
	{name: "revert", title: "revert every edit", apply: (*lane).revert, sm90: true},
}

// scenariosNamed returns the named scenarios in table order. cold is always included; no names mean
// all.
func scenariosNamed(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	for _, n := range names {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == n }) {
			var all []string
			for _, s := range scenarios {
				all = append(all, s.name)
			}
			return nil, fmt.Errorf("no scenario %q; there are %s", n, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return s.name != "cold" && !slices.Contains(names, s.name)
	}), nil
}

func editing(e edit) func(*lane) error {
	return func(l *lane) error {
		l.project.edits = append(slices.Clip(l.project.edits), e)
		return nil
	}
}

func (l *lane) revert() error {
	l.project.edits = nil
	return nil
}

func (l *lane) addArch() error {
	l.project.archs = withArch(l.project.archs, l.options.add)
	return nil
}

func withArch(archs []string, add string) []string {
	if slices.Contains(archs, add) {
		return archs
	}
	sorted := append(slices.Clone(archs), add)
	slices.Sort(sorted)
	return sorted
}

func (l *lane) removeArch() error {
	if len(l.project.archs) > 1 {
		l.project.archs = l.project.archs[1:]
	}
	return nil
}

func (l *lane) touch() error {
	now := time.Now()
	return os.Chtimes(filepath.Join(l.tree, "src", "math.cu"), now, now)
}

// removeOutputs removes the outputs. The sources stay, and so do the caches outside the tree.
func (l *lane) removeOutputs() error {
	for _, n := range []string{"build", "out", ".ninja_log", ".ninja_deps"} {
		if err := os.RemoveAll(filepath.Join(l.tree, n)); err != nil {
			return err
		}
	}
	return nil
}
