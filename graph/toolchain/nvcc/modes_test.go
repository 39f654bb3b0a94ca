package nvcc

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// mode is a recorded answer of nvcc to the question for the steps of one mode or option.
type mode struct{ toolkit, name, text string }

func (m mode) link() bool { return strings.HasPrefix(m.name, "dlink") }

// modes are all recorded answers in testdata/modes. A question was asked as Ask makes it of a
// command of kbuild's.
func modes(t *testing.T) (all []mode) {
	t.Helper()
	files, err := filepath.Glob("testdata/modes/*.txtar")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		variables := string(ar.Files[0].Data)
		for _, f := range ar.Files[1:] {
			text := string(f.Data)
			if first, rest, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, "asked: ") {
				text = rest
			}
			all = append(all, mode{strings.TrimSuffix(filepath.Base(file), ".txtar"), f.Name, variables + text})
		}
	}
	return all
}

// TestModes takes nvcc apart in every mode and with every option that was recorded, without a
// fallback: of 11.8, 12.4, 13.0 and 13.5.
func TestModes(t *testing.T) {
	for _, m := range modes(t) {
		t.Run(m.toolkit+"/"+m.name, func(t *testing.T) {
			if fault := planned(m); fault != "" {
				t.Error(fault)
			}
		})
	}
}

// planned says why the passes of an answer do not make the output, each of what others make.
func planned(m mode) string {
	g := &graph.Graph{}
	whole := &graph.Action{Kind: graph.Compile, Mode: "whole", Inputs: []string{"a.cu"}, Outputs: []string{"a.o"}, Tools: []string{"nvcc"}}
	u := toolchain.Unit{Dir: "parts", ID: "id", Whole: whole, Plan: &toolchain.Plan{}}
	if m.link() {
		c, err := LearnLink(m.text)
		if err != nil {
			return err.Error()
		}
		if err := NewSplit(u, &cuda.Toolkit{}, c.Env).Link(c, []File{{Path: "b.o"}}); err != nil {
			return err.Error()
		}
	} else {
		c, err := LearnCompile(m.text)
		if err != nil {
			return err.Error()
		}
		NewSplit(u, &cuda.Toolkit{HostCXX: toolchain.Tool{Path: "g++"}}, c.Env).Compile(c)
	}
	for _, a := range u.Plan.Actions {
		g.Add(a)
	}
	if err := g.Seal(); err != nil {
		return err.Error()
	}
	last := g.Actions[len(g.Actions)-1]
	if last.Outputs[0] != "a.o" {
		return "the last pass makes " + last.Outputs[0]
	}
	for _, a := range g.Actions {
		for _, word := range a.Argv {
			if strings.Contains(word, askKeep) || strings.Contains(word, QuerySource) {
				return string(a.Kind) + " has a name of the question: " + word
			}
		}
	}
	return ""
}
