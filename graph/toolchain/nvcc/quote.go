package nvcc

import (
	"slices"
	"strings"
)

// Two parsers process an argument of nvcc before the program gets it. nvcc splits the values of its
// list options (-D, -I, -isystem, -L, -X...) at commas. 11.8 treats brackets as quotes, too, and a
// backslash protects a character. nvcc then writes the result into a shell command: within double
// quotes, where it escapes only '"', or for -X... without quotes. Folders are an exception: nvcc
// keeps their backslashes, and only quotes around a folder protect its commas.
//
// Values quoted by this file reach the program unchanged, tried with random values on 11.8, 13.0
// and 13.5. Some characters cannot be quoted. In folders these are what the shell expands,
// backslashes and quotes. Options of cicc, ptxas and nvlink are parsed once more: UnforwardedChars
// lists theirs.

// The characters that cannot be quoted: in folders of -I, in options of cicc, ptxas and nvlink, and
// in arguments that nvcc gets unquoted.
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

// defineValue quotes NAME=VALUE for -D.
func defineValue(define string) string { return listEscapes.Replace(quotedShell.Replace(define)) }

// forward quotes flags for a program that nvcc runs. nvcc writes them into its command without
// quotes.
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

// ReadList parses the value of -D, or of -I, as nvcc and its shell do.
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
