package reference

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

// What See names is a page of docs, with a heading of that anchor.
func TestPagesToSee(t *testing.T) {
	unlinked := regexp.MustCompile(`[^a-z0-9 -]`)
	for _, e := range entries("", manifest.Schema()) {
		see := e.block.See
		if e.attribute != nil {
			see = e.attribute.See
		}
		if see == "" {
			continue
		}
		page, anchor, _ := strings.Cut(see, "#")
		text, err := os.ReadFile("../../../docs/" + page)
		found := anchor == ""
		for line := range strings.Lines(string(text)) {
			if title := strings.TrimLeft(line, "#"); title != line {
				words := unlinked.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
				found = found || strings.ReplaceAll(words, " ", "-") == anchor
			}
		}
		if err != nil || !found {
			t.Errorf("%s: no %s (%v)", e.path, see, err)
		}
	}
}

func TestExplain(t *testing.T) {
	for name, want := range map[string]string{
		"":                   "library       A static library",
		"library":            "of defaults   `gencode`, `code`, `mode`",
		"debug":              "also          `library.debug`, `executable.debug`, `module.debug`",
		"module.emit":        "becomes       `nvcc -cubin`",
		"flags.nvcc":         "-diag-suppress 177",
		"gencode":            "defaults.gencode, library.gencode",
		"partition.mode":     "inherited     from the target",
		"variable.condition": `a manifest has no "variable.condition"; did you mean "condition"?`,
		"libary.opt":         `did you mean "library.opt"?`,
		"zzz":                "kbuild explain lists its blocks",
	} {
		var b bytes.Buffer
		if err := Explain(&b, name); err != nil {
			b.WriteString(err.Error())
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: no %q in\n%s", name, want, b.String())
		}
	}
}

// Every line of a man page is text or a request that it means.
func TestMan(t *testing.T) {
	var b bytes.Buffer
	manifestMan(&b)
	request := regexp.MustCompile(`^\.(TH|SH|SS|PP|TP 14|RS 4|RE|nf|fi|nh|ad l|BR)\b`)
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, ".") && !request.MatchString(line) || strings.HasPrefix(line, "'") || strings.Contains(line, "`") {
			t.Errorf("%q", line)
		}
	}
	if got := marked("`.cu` is `a\\b`."); got != `\fB.cu\fP is \fBa\eb\fP.` {
		t.Errorf("%s", got)
	}
}

func TestJSONSchema(t *testing.T) {
	var b bytes.Buffer
	if err := JSONSchema(&b); err != nil {
		t.Fatal(err)
	}
	var s struct {
		Defs map[string]struct {
			Required   []string
			Properties map[string]any
		} `json:"$defs"`
	}
	if err := json.Unmarshal(b.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	for _, n := range manifest.Schema().Blocks {
		if got := len(s.Defs[n.Name].Properties); got != len(n.Attributes)+len(n.Blocks) {
			t.Errorf("%s: %d properties", n.Name, got)
		}
	}
	if got := s.Defs["generate"].Required; !cmp.Equal(got, []string{"command", "outputs"}) {
		t.Errorf("generate requires %q", got)
	}
}
