package report

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
)

// The subset of SARIF 2.1.0 (OASIS, 2020) that code scanning reads: results with a rule, a level, a
// text and a location.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool           `json:"tool"`
		Bases   map[string]sarifURI `json:"originalUriBaseIds"`
		Results []sarifResult       `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifURI struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID     string          `json:"ruleId"`
		Level      string          `json:"level"`
		Message    sarifText       `json:"message"`
		Locations  []sarifLocation `json:"locations,omitempty"`
		Properties sarifProperties `json:"properties"`
	}
	sarifLocation struct {
		Physical sarifPlace `json:"physicalLocation"`
	}
	sarifPlace struct {
		Artifact sarifURI     `json:"artifactLocation"`
		Region   *sarifRegion `json:"region,omitempty"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
	sarifProperties struct {
		Target        string   `json:"target"`
		Architectures []string `json:"architectures,omitempty"`
	}
)

const sourceRoot = "SRCROOT"

// SARIF returns the content of a SARIF file.
func (r *Report) SARIF() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := sarifRun{
		Tool:    sarifTool{sarifDriver{Name: "kbuild", Version: r.Version, Rules: []sarifRule{}}},
		Bases:   map[string]sarifURI{sourceRoot: {URI: fileURI(r.Root) + "/"}},
		Results: []sarifResult{},
	}
	rules := map[string]bool{}
	for _, c := range r.sorted() {
		for _, m := range c.messages {
			rule := ruleOf(m.Message)
			if !rules[rule] {
				rules[rule] = true
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{rule})
			}
			text := m.Text
			if m.Severity == messages.Error && len(c.help) > 0 {
				text += "\n" + strings.Join(c.help, "\n")
			}
			res := sarifResult{RuleID: rule, Level: string(m.Severity), Message: sarifText{text}, Properties: sarifProperties{c.action.Target, m.archs}}
			if m.File != "" {
				res.Locations = []sarifLocation{{r.place(m.Message)}}
			}
			run.Results = append(run.Results, res)
		}
	}
	text, err := json.MarshalIndent(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}, "", "  ")
	return append(text, '\n'), err
}

// ruleOf returns the rule of a message: the compiler's code for it, or the name of the tool.
func ruleOf(m messages.Message) string {
	switch {
	case m.Code != "":
		return m.Code
	case m.Tool != "":
		return filepath.Base(m.Tool) + "-" + string(m.Severity)
	}
	return "compiler-" + string(m.Severity)
}

func (r *Report) place(m messages.Message) sarifPlace {
	p := sarifPlace{Artifact: sarifURI{URI: fileURI(m.File)}}
	if rel, ok := within(r.Root, r.Root, m.File); ok {
		p.Artifact = sarifURI{URI: fileURI(rel), Base: sourceRoot}
	}
	if m.Line > 0 {
		p.Region = &sarifRegion{m.Line, m.Column}
	}
	return p
}

func fileURI(file string) string {
	if !filepath.IsAbs(file) {
		return (&url.URL{Path: file}).String() // "./a:b.cu", where "a" must not parse as a scheme
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()
}
