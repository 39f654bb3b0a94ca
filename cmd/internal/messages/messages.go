// Package messages reads what compilers and linkers say: nvcc's front end (EDG), ptxas, nvlink,
// gcc, clang, the linkers of both, drivers. It knows texts alone; for whom they were written is the
// caller's.
package messages

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Severity is how bad a message is.
type Severity string

// Severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Message is one message.
type Message struct {
	Severity Severity
	File     string // as it was written; "" is none
	Line     int    // from 1; 0 is none
	Column   int    // from 1, in what the compiler counts; 0 is none
	Code     string // by which the compiler names it: "-Wformat=", "#177-D"
	Text     string // one line
	Tool     string // that wrote it, where it says so: "ptxas"
}

// form is one way to write a message: groups are named sev, file, line, col, code, text, tool.
var forms = sync.OnceValue(func() (all []*regexp.Regexp) {
	const sev = `(?P<sev>fatal error|error|warning|note|remark|catastrophic error|internal error)`
	for _, re := range []string{
		`(?P<file>[^\s:(][^:(]*)\((?P<line>\d+)\): (?i:` + sev + `)(?: (?P<code>#[\w-]+))?: (?P<text>.+)`,                         // EDG: a.cu(3): warning #177-D: ...
		`(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:(?P<col>\d+):)? ` + sev + `: (?P<text>.+)`,                                        // gcc, clang
		`(?P<tool>ptxas) (?P<file>[^,]+), line (?P<line>\d+); (?P<sev>error|warning|fatal)\s*: (?P<text>.+)`,                      // of a file that is gone
		`(?P<tool>\w+) (?P<sev>error|warning|fatal)\s*: (?P<text>.+)`,                                                             // ptxas, nvlink, nvcc, fatbinary
		`(?:(?P<tool>\S+): )?(?P<file>[^\s:][^:]*):(?P<line>\d+): (?P<text>(?:undefined reference to|multiple definition of) .+)`, // ld, with -g
		`(?:(?P<tool>\S+): )?(?P<file>[^\s:][^:]*):\([^)]*\): (?P<text>(?:undefined reference to|multiple definition of) .+)`,     // ld
		`(?P<tool>\S*ld\S*): (?P<text>cannot find .+)`,
		`(?P<tool>[^\s:]+): ` + sev + `: (?P<text>.+)`, // drivers, lld
	} {
		all = append(all, regexp.MustCompile(`^`+re+`$`))
	}
	return all
})

// Escapes are the sequences by which terminals show colours, links and places.
var Escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;:?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")
})

var warningFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` \[(-W[^\]]+)\]$`) })

// Parse gives the messages of a text, in order, each once. Notes that belong to another message are
// left out: they say where else to look.
func Parse(said string) (all []Message) {
	seen := map[Message]bool{}
	for line := range strings.Lines(Escapes().ReplaceAllString(said, "")) {
		m, ok := parse(strings.TrimRight(line, "\r\n \t"))
		if ok && m.Severity != Note && !seen[m] {
			seen[m] = true
			all = append(all, m)
		}
	}
	return withoutEchoes(all)
}

// parse reads a line.
func parse(line string) (m Message, ok bool) {
	if len(line) > 4096 || !strings.Contains(line, ": ") {
		return m, false
	}
	for _, re := range forms() {
		groups := re.FindStringSubmatch(line)
		if groups == nil {
			continue
		}
		of := func(name string) string {
			if i := re.SubexpIndex(name); i >= 0 {
				return groups[i]
			}
			return ""
		}
		m = Message{Severity: severity(of("sev")), File: of("file"), Code: of("code"), Text: of("text"), Tool: of("tool")}
		m.Line, _ = strconv.Atoi(of("line"))
		m.Column, _ = strconv.Atoi(of("col"))
		if flag := warningFlag().FindStringSubmatch(m.Text); flag != nil {
			m.Code, m.Text = flag[1], strings.TrimSuffix(m.Text, flag[0])
		}
		if m.Tool == "ptxas" {
			m.File, m.Line = "", 0 // PTX between two passes
		}
		return m, true
	}
	return m, false
}

// severity of a word; without one it is an error, of a linker.
func severity(word string) Severity {
	switch word := strings.ToLower(word); {
	case word == "warning":
		return Warning
	case word == "note" || word == "remark":
		return Note
	}
	return Error
}

// withoutEchoes leaves out that a driver says of its linker, or ptxas at its end, that it failed,
// if that is known.
func withoutEchoes(all []Message) (out []Message) {
	for i, m := range all {
		echo := strings.HasPrefix(m.Text, "ld returned ") || strings.HasPrefix(m.Text, "linker command failed") || m.Text == "Ptx assembly aborted due to errors"
		if !echo || i == 0 {
			out = append(out, m)
		}
	}
	return out
}
