// Package messages parses the output of compilers and linkers: nvcc's front end (EDG), ptxas,
// nvlink, gcc, clang, their linkers and drivers. It knows only texts, and not which action printed
// them.
package messages

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Severity classifies a message.
type Severity string

// The values of Severity.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Message is a message of a compiler or linker.
type Message struct {
	Severity Severity
	File     string // as printed; "" means none
	Line     int    // from 1; 0 means none
	Column   int    // from 1, in the compiler's units; 0 means none
	Code     string // the compiler's name for it: "-Wformat=", "#177-D"
	Text     string // one line
	Tool     string // the tool that printed it, if known: "ptxas"
}

// forms lists the formats of messages. Groups are named sev, file, line, col, code, text, tool.
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

// Escapes matches the terminal sequences for colours, links and cursor positions.
var Escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;:?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")
})

var warningFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` \[(-W[^\]]+)\]$`) })

// Parse returns the messages in a text, in order and without duplicates. Notes are left out, since
// they only add details to another message.
func Parse(printed string) (all []Message) {
	seen := map[Message]bool{}
	for line := range strings.Lines(Escapes().ReplaceAllString(printed, "")) {
		m, ok := parse(strings.TrimRight(line, "\r\n \t"))
		if ok && m.Severity != Note && !seen[m] {
			seen[m] = true
			all = append(all, m)
		}
	}
	return withoutEchoes(all)
}

// parse parses a line.
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
			m.File, m.Line = "", 0 // intermediate PTX between two passes
		}
		return m, true
	}
	return m, false
}

// severity maps a word to a Severity. A linker error has no such word.
func severity(word string) Severity {
	switch word := strings.ToLower(word); {
	case word == "warning":
		return Warning
	case word == "note" || word == "remark":
		return Note
	}
	return Error
}

// withoutEchoes removes messages that only repeat that a linker or ptxas failed, if an earlier
// message says why.
func withoutEchoes(all []Message) (out []Message) {
	for i, m := range all {
		echo := strings.HasPrefix(m.Text, "ld returned ") || strings.HasPrefix(m.Text, "linker command failed") || m.Text == "Ptx assembly aborted due to errors"
		if !echo || i == 0 {
			out = append(out, m)
		}
	}
	return out
}
