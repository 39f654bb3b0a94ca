package pptext

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// This file holds Canonical to a second reading of C++, slow and written on its own: a text's
// tokens, each with the file and flags that it has, must be those of its canonical form.

// token is a token or a directive with its place, or a marker.
type token struct {
	text  string // white space between the words of a directive counts
	place string
	kind  byte // 't' a token, 'd' a directive, 'm' a marker
}

var (
	refNumber  = regexp.MustCompile(`^\.?[0-9]([eEpP][+-]|'[0-9A-Za-z_$\x{80}-\x{10ffff}]|[.0-9A-Za-z_$\x{80}-\x{10ffff}])*`)
	refRaw     = regexp.MustCompile(`^(u8|u|U|L)?R"([^ ()\\\t\v\f\r\n"]{0,16})\(`)
	refLiteral = regexp.MustCompile(`^(u8|u|U|L)?("(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])*')`)
	refWord    = regexp.MustCompile(`^[A-Za-z_$\x{80}-\x{10ffff}][0-9A-Za-z_$\x{80}-\x{10ffff}]*`)
	refComment = regexp.MustCompile(`^(?s:/\*.*?\*/)`)
	refMarker  = regexp.MustCompile(`^#[ \t]*(line[ \t]+)?[0-9]+(?:[ \t]+("(?:\\.|[^"\\])*")((?:[ \t]+[1-4])*))?[ \t\v\f]*$`)
	refBlanks  = regexp.MustCompile(`^[ \t\v\f]+`)
	refCond    = regexp.MustCompile(`^#[ \t]*(ifdef|ifndef|if|elifdef|elifndef|elif|else|endif)(?:[^0-9A-Za-z_$\x{80}-\x{10ffff}]|$)`)
	refFalse   = regexp.MustCompile(`^#[ \t]*if[ \t\v\f]+0[ \t\v\f]*$`)
)

// refTokens reads text into tokens without places.
func refTokens(text string) (out []token) {
	add := func(kind byte, s string) { out = append(out, token{text: s, kind: kind}) }
	fresh := true // only blanks since the newline
	for len(text) > 0 {
		if fresh && text[0] == '#' {
			line, rest, _ := strings.Cut(text, "\n")
			line = strings.TrimRight(line, " \t\v\f")
			kind := byte('d')
			if refMarker.MatchString(line) {
				kind = 'm'
			}
			add(kind, line)
			text = rest
			continue
		}
		n := 1
		switch m := refRaw.FindStringSubmatch(text); {
		case text[0] == '\n':
			text, fresh = text[1:], true
			continue
		case m != nil:
			end := strings.Index(text[len(m[0]):], ")"+m[2]+`"`)
			if end < 0 {
				end = 0
			}
			n = len(m[0]) + end + len(m[2]) + 2
			if n > len(text) {
				n = len(text)
			}
			add('t', text[:n])
		default:
			n = refPlain(text, add)
		}
		fresh, text = false, text[n:]
	}
	return out
}

// refPlain reads what begins with no newline, directive or raw string.
func refPlain(text string, add func(byte, string)) int {
	for _, blank := range []*regexp.Regexp{refBlanks, refComment} {
		if s := blank.FindString(text); s != "" {
			return len(s)
		}
	}
	for _, t := range []*regexp.Regexp{refNumber, refLiteral, refWord} {
		if s := t.FindString(text); s != "" {
			add('t', s)
			return len(s)
		}
	}
	add('t', text[:1])
	return 1
}

// refDrop leaves out "#if 0" groups as Options.DropFalse says.
func refDrop(in []token) (out []token) {
	for i := 0; i < len(in); i++ {
		if in[i].kind != 'd' || !refFalse.MatchString(in[i].text) {
			out = append(out, in[i])
			continue
		}
		depth, j := 1, i+1
		for ; j < len(in); j++ {
			m := refCond.FindStringSubmatch(in[j].text)
			if in[j].kind != 'd' || m == nil {
				continue
			}
			switch {
			case m[1] == "endif":
				depth--
			case strings.HasPrefix(m[1], "if"):
				depth++
			case depth == 1:
				out = append(out, token{text: "#if 0", kind: 'd'})
				depth = -1
			}
			if depth <= 0 {
				break
			}
		}
		if depth < 0 {
			j--
		}
		i = j
	}
	return out
}

// refPlaces gives tokens their places, as g++ reads markers, and turns markers into what enters and
// leaves files. The n-th group of conditionals is read when the bit n%16 of groups is set.
func refPlaces(in []token, groups int) (out []token) {
	place, flags, unsaid, group := "", "", "", 0
	var files []string
	var skipped []bool
	skip := func() bool { return len(skipped) > 0 && skipped[len(skipped)-1] }
	for _, t := range in {
		if t.kind != 'm' {
			if m := refCond.FindStringSubmatch(t.text); t.kind == 'd' && m != nil {
				read := groups>>(group%16)&1 == 0
				group++
				switch {
				case strings.HasPrefix(m[1], "if"):
					skipped = append(skipped, read || skip())
				case len(skipped) == 0:
				case m[1] == "endif":
					skipped = skipped[:len(skipped)-1]
				default:
					outer := len(skipped) > 1 && skipped[len(skipped)-2]
					skipped[len(skipped)-1] = read || outer
				}
			}
			t.place = place + flags + unsaid
			if skip() {
				t.place = "skipped"
			}
			out = append(out, t)
			continue
		}
		m := refMarker.FindStringSubmatch(t.text)
		if skip() || m[2] == "" {
			continue
		}
		if m[1] != "" {
			place, unsaid = m[2], " #line"
			continue
		}
		words := strings.Fields(m[3])
		step := ""
		if len(words) > 0 && words[0] <= "2" {
			step, words = words[0], words[1:]
		}
		switch step {
		case "1":
			out = append(out, token{kind: 'm', text: "enter " + m[2], place: place + flags + unsaid})
			files = append(files, place)
		case "2":
			out = append(out, token{kind: 'm', text: "leave " + m[2]})
			if len(files) == 0 || files[len(files)-1] != m[2] {
				continue // g++ ignores it
			}
			files = files[:len(files)-1]
		}
		place, flags, unsaid = m[2], " "+strings.Join(words, " "), ""
	}
	return out
}

// sameTokens says where the tokens of two texts differ, or "".
func sameTokens(a, b string, drop bool) string {
	ta, tb := refTokens(a), refTokens(b)
	if drop {
		ta, tb = refDrop(ta), refDrop(tb)
	}
	for _, groups := range []int{0, 0xffff, 0x5a5a, 0x3333} {
		pa, pb := refPlaces(ta, groups), refPlaces(tb, groups)
		for i := range min(len(pa), len(pb)) {
			if pa[i] != pb[i] {
				return fmt.Sprintf("token %d of groups %x: %q and %q", i, groups, pa[i], pb[i])
			}
		}
		if len(pa) != len(pb) {
			return strconv.Itoa(len(pa)) + " and " + strconv.Itoa(len(pb)) + " tokens"
		}
	}
	return ""
}

// checkForm holds the canonical form of text to all that it promises.
func checkForm(t *testing.T, text string, o Options) {
	t.Helper()
	got, c := canon(t, text, o)
	if again, _ := canon(t, got, o); again != got {
		t.Errorf("the canonical form of\n%q\nis\n%q\nand that of it\n%q", text, got, again)
	}
	if c.Copied {
		if got != text {
			t.Errorf("%q was copied as %q", text, got)
		}
		return
	}
	if diff := sameTokens(text, got, o.DropFalse); diff != "" {
		t.Errorf("the canonical form of\n%q\nis\n%q\n%s", text, got, diff)
	}
}

func TestReference(t *testing.T) {
	checkForm(t, header(3), Options{})
	// The reference can fail: it sees what the canonical form must keep.
	for _, pair := range [][2]string{
		{"a b", "ab"}, {"'  '", "' '"}, {"R\"(\n\n)\"", "R\"(\n)\""}, {"#pragma  x", "#pragma x"},
		{"# 1 \"a\" 3\nx", "# 1 \"a\"\nx"}, {"# 1 \"a\"\nx", "# 1 \"b\"\nx"}, {"# 1 \"a\" 1\n", ""},
		{"#if X\n# 1 \"a\"\n#endif\n# 1 \"a\"\nx", "#if X\n# 1 \"a\"\n#endif\nx"},
	} {
		if sameTokens(pair[0], pair[1], false) == "" {
			t.Errorf("%q and %q have the same tokens", pair[0], pair[1])
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		"", "int  a;\n\n# 3 \"a.cu\" 3 4\n x\n", header(1), "a/* ' */b\n", "x = R\"d(\n  )d\"  ;\n", "1'0'0  'a'  1.e+'0\n",
		"#if 0\n# 1 \"b\"\n a  b\n#if X\n#endif\n#else\n c  d\n#endif\n# 2 \"b\"\ne\n", "\"a\"R\"(  )\"\n", "#line 1 \"x\"\n  a\n",
		"# 1 \"a\"\n# 1 \"b\" 1\n\n x\n# 2 \"a\" 2\n y\n# 5 \"a\"\n z\n", "#define A 1\n#undef B\n  x\n", "u8'a'  L\"  \\\"\"  ?\n",
		"#ifdef A\n# 1 \"b\" 1\n x\n#elif B\n# 7 \"a\" 2\n#endif\n# 7 \"a\"\n", "x.e+'  ' 0xe+'a'  .5'0\n", " #x\n", "%:x\n", "a //  b\n",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, dropFalse bool) { checkForm(t, text, Options{DropFalse: dropFalse}) })
}
