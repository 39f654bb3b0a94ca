package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
)

// GitHub returns annotations as workflow commands
// (https://docs.github.com/actions/reference/workflow-commands-for-github-actions). Errors come
// first, since GitHub shows only the first ten of a kind. workspace is the folder of the checkout;
// GitHub needs file names relative to it.
func (r *Report) GitHub(workspace string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	for _, severity := range []messages.Severity{messages.Error, messages.Warning} {
		for _, c := range r.sorted() {
			for _, m := range c.messages {
				if m.Severity == severity {
					b.WriteString(c.annotation(m).Command(r.Root, workspace))
				}
			}
		}
	}
	return b.Bytes()
}

func (c *command) annotation(m *message) Annotation {
	a := Annotation{Severity: string(m.Severity), File: m.File, Line: m.Line, Column: m.Column, Title: c.title(), Text: m.Text}
	if len(m.archs) > 0 {
		a.Title += " (" + strings.Join(m.archs, ", ") + ")"
	}
	if m.Code != "" {
		a.Text += " [" + m.Code + "]"
	}
	if m.Severity == messages.Error {
		a.Text = strings.Join(slices.Concat([]string{a.Text}, c.help), "\n")
	}
	return a
}

// Annotation is a message attached to a line of a file.
type Annotation struct {
	Severity     string // "error", "warning", "notice"
	File         string // relative to root; "" means no file
	Line, Column int
	Title, Text  string
}

// Command formats a as a workflow command.
func (a Annotation) Command(root, workspace string) string {
	var fields []string
	if rel, ok := within(root, workspace, a.File); ok && a.File != "" && workspace != "" {
		fields = append(fields, "file="+property(rel))
		if a.Line > 0 {
			fields = append(fields, fmt.Sprintf("line=%d", a.Line))
		}
		if a.Column > 0 {
			fields = append(fields, fmt.Sprintf("col=%d", a.Column))
		}
	}
	if a.Title != "" {
		fields = append(fields, "title="+property(a.Title))
	}
	return fmt.Sprintf("::%s %s::%s\n", a.Severity, strings.Join(fields, ","), data(a.Text))
}

var (
	dataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func data(s string) string     { return dataEscapes.Replace(s) }
func property(s string) string { return propertyEscapes.Replace(s) }
