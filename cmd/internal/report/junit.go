package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/cmd/internal/messages"
)

// JUnit XML as CI systems read it: a suite per target, a case per command.
type (
	junitSuites struct {
		XMLName  xml.Name      `xml:"testsuites"`
		Name     string        `xml:"name,attr"`
		Tests    int           `xml:"tests,attr"`
		Failures int           `xml:"failures,attr"`
		Errors   int           `xml:"errors,attr"`
		Time     string        `xml:"time,attr"`
		Suites   []*junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"` // always 0: readers require it
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`

		elapsed time.Duration
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr,omitempty"` // for GitLab's links; not in Jenkins
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Skipped *junitSkipped `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"` // "error", or "test"
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// JUnit returns the content of a JUnit XML file.
func (r *Report) JUnit() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := junitSuites{Name: "kbuild"}
	suites := map[string]*junitSuite{}
	for _, c := range r.sorted() {
		if r.Tests && c.action.Work.Test == nil && !c.failed {
			continue
		}
		name := c.action.Target
		if c.action.Work.Test != nil {
			name = "test" // all tests form one suite
		}
		s := suites[name]
		if s == nil {
			s = &junitSuite{Name: name}
			suites[name] = s
			all.Suites = append(all.Suites, s)
		}
		one := c.junit()
		s.Cases = append(s.Cases, one)
		s.Tests++
		if one.Failure != nil {
			s.Failures++
		}
		if one.Skipped != nil {
			s.Skipped++
		}
		s.elapsed += c.elapsed
	}
	var took time.Duration
	for _, s := range all.Suites {
		s.Time = seconds(s.elapsed)
		took += s.elapsed
		all.Tests, all.Failures = all.Tests+s.Tests, all.Failures+s.Failures
	}
	all.Time = seconds(took)
	text, err := xml.MarshalIndent(all, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

func (c *command) junit() junitCase {
	printed := printable(strings.Join(c.printed, "\n"))
	out := junitCase{Class: c.action.Target, Name: c.title(), Time: seconds(c.elapsed), Out: printed}
	switch {
	case c.failed:
		out.Failure = &junitFailure{Type: "error", Text: strings.TrimSpace(printed + "\n" + strings.Join(c.help, "\n"))}
		if out.Out = ""; c.action.Work.Test != nil {
			out.Failure.Type, out.Failure.Message = "test", printable(c.why) // of no known format
			break
		}
		for _, m := range c.messages {
			if m.Severity == messages.Error {
				out.Failure.Message, out.File = m.Text, m.File
				break
			}
		}
	case c.skipped:
		out.Skipped = &junitSkipped{cmp.Or(c.why, "what it needs failed, or the build ended before")}
	}
	return out
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// printable removes characters that XML does not allow.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0xfffe || c == 0xffff {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "\ufffd"))
}
