package command

import "strings"

// Compilers break the lines of a dependency file by the length of its names, so the file of another
// base has other line breaks. These are the rules of gcc (libcpp/mkdeps.cc, 72 columns) and clang
// (lib/Frontend/DependencyFile.cpp, 75).

// gccRule formats a rule with the line breaks of gcc.
func gccRule(targets, files []string) string {
	const columns = 72
	var out strings.Builder
	col := 0
	write := func(names []string) {
		for _, name := range names {
			if col > 0 {
				if col+len(name) > columns {
					out.WriteString(" \\\n")
					col = 0
				}
				col++
				out.WriteByte(' ')
			}
			col += len(name)
			out.WriteString(name)
		}
	}
	write(targets)
	out.WriteByte(':')
	col++
	write(files)
	return out.String()
}

// clangRule formats a rule with the line breaks of clang.
func clangRule(targets, files []string) string {
	const columns = 75
	var out strings.Builder
	col := 0
	for i, name := range targets {
		switch {
		case i == 0:
			col += len(name)
		case col+len(name)+2 > columns:
			col = len(name) + 2
			out.WriteString(" \\\n  ")
		default:
			col += len(name) + 1
			out.WriteByte(' ')
		}
		out.WriteString(name)
	}
	out.WriteByte(':')
	col++
	for _, name := range files {
		if col+len(name)+1+2 > columns {
			out.WriteString(" \\\n ")
			col = 2
		}
		out.WriteString(" " + name)
		col += len(name) + 1
	}
	return out.String()
}

// wrap breaks the lines of a dependency file again. ok is false if the text has another format.
func wrap(text, rule string) (wrapped string, ok bool) {
	line, rest := text, ""
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			break
		}
		at += i + 1
		if at < 2 || text[at-2] != '\\' {
			line, rest = text[:at-1], text[at-1:]
			break
		}
	}
	words := words(strings.ReplaceAll(line, "\\\n", " "))
	for i, w := range words {
		if target, last := strings.CutSuffix(w, ":"); last {
			write := gccRule
			if rule == "clang" {
				write = clangRule
			}
			return write(append(words[:i:i], target), words[i+1:]) + rest, true
		}
	}
	return text, false
}

// words returns the names in a line, with their blanks escaped.
func words(line string) (list []string) {
	for _, w := range strings.Fields(line) {
		if n := len(list); n > 0 && strings.HasSuffix(list[n-1], `\`) {
			list[n-1] += " " + w
		} else {
			list = append(list, w)
		}
	}
	return list
}
