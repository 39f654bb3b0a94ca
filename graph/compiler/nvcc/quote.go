package nvcc

import (
	"slices"
	"strings"
)

// Two readers stand between an argument of nvcc and the program that gets it. nvcc splits the
// values of its list options (-D, -I, -isystem, -L, -X...) at commas, where 11.8 takes brackets for
// quotes, too; a backslash keeps a character. What is left it writes into a command for a shell:
// within double quotes, where it escapes nothing but '"', or for -X... without quotes. Folders are
// an exception: nvcc keeps their backslashes, and only quotes around a folder keep its commas.
//
// What is written here reaches the program as it is, tried with random values on 11.8, 13.0 and
// 13.5. Unquotable are, in folders, what the shell expands and backslashes and quotes; for cicc,
// ptxas and nvlink, whose options go through one reader more, what UnforwardedChars lists.

// The characters that reach no program: in folders of -I, in options of cicc, ptxas and nvlink, and
// in what nvcc is given as it is.
const (
	UnquotedDirChars = "\"'\\$`"
	UnforwardedChars = "'$`"
	ShellChars       = "$`"
)

var (
	listEscapes  = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `,`, `\,`, `[`, `\[`, `]`, `\]`)
	quotedShell  = strings.NewReplacer(`\`, `\\`, `$`, `\$`, "`", "\\`")
	shellRemoves = strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`", `\"`, `"`)
)

// defineValue spells NAME=VALUE for -D.
func defineValue(define string) string { return listEscapes.Replace(quotedShell.Replace(define)) }

// forward spells flags for a program behind nvcc, which get into its command without quotes.
func forward(option string, flags []string) []string {
	var argv []string
	for _, f := range flags {
		var quoted strings.Builder
		for _, c := range f {
			if strings.ContainsRune(" \t\"'\\$`*?[]{}()<>|&;!#~", c) {
				quoted.WriteByte('\\')
			}
			quoted.WriteRune(c)
		}
		argv = append(argv, option, listEscapes.Replace(quoted.String()))
	}
	return argv
}

// ReadList reads the value of -D, or of -I, as nvcc and its shell do.
func ReadList(list string, folders bool) []string {
	var values []string
	var value strings.Builder
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && !folders && i+1 < len(list):
			i++
			value.WriteByte(list[i])
		case c == '"' && folders:
			quoted = !quoted
		case c == ',' && !quoted:
			values = append(values, value.String())
			value.Reset()
		default:
			quoted = quoted != (c == '"')
			value.WriteByte(c)
		}
	}
	values = append(values, value.String())
	for i := range values {
		values[i] = shellRemoves.Replace(values[i])
	}
	return slices.DeleteFunc(values, func(v string) bool { return v == "" })
}
