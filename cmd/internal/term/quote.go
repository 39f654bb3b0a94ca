package term

import "strings"

// ShellQuote spells a command line so that it can be pasted into a POSIX shell.
func ShellQuote(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quoteWord(arg)
		if i == 0 && strings.Contains(arg, "=") && words[i] == arg {
			words[i] = "'" + arg + "'" // else the shell would take it for an assignment
		}
	}
	return strings.Join(words, " ")
}

func quoteWord(s string) string {
	if s != "" && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// special reports characters that mean something to a shell. Bytes above ASCII do not, but blanks
// among them would vanish for a reader.
func special(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	case r < 0x80:
		return !strings.ContainsRune("_-+=:,./@%^", r)
	}
	return r == 0xa0 || r == 0x2007 || r == 0x202f || r == 0x3000 || r == 0xfffd
}
