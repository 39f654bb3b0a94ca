package host

import (
	"slices"
	"strings"
)

// SplitOptions groups words into options with their values. An option whose value is the next word
// is two words. A run of -Xclang A -Xclang B is one option, because its words may belong together.
func SplitOptions(words []string) (options [][]string) {
	for i := 0; i < len(words); i++ {
		start := i
		if slices.Contains(takesValue(), words[i]) && i+1 < len(words) {
			i++
		}
		if last := len(options) - 1; last >= 0 && passesOn(words[start]) && options[last][0] == words[start] {
			options[last] = append(options[last], words[start:i+1]...)
		} else {
			options = append(options, slices.Clone(words[start:i+1]))
		}
	}
	return options
}

// passesOn reports whether option passes one word to another program.
func passesOn(option string) bool {
	switch option {
	case "-Xclang", "-Xlinker", "-Xassembler", "-Xpreprocessor", "-Xarch_host", "-Xarch_device", "-mllvm":
		return true
	}
	return false
}

// ReadOptions parses the options of a gcc or clang compile, with or without its files, into the
// terms that Compile takes. sources are the words that are no options.
func ReadOptions(words []string) (o Options, sources []string) {
	for _, option := range SplitOptions(words) {
		arg, value := option[0], strings.Join(option[1:], "")
		switch {
		case slices.Contains([]string{"-c", "-MD", "-MMD", "-MP", "-o", "-MF", "-MT", "-MQ", "-x"}, arg):
		case strings.HasPrefix(arg, "-D"):
			o.Defines = append(o.Defines, arg[2:]+value)
		case strings.HasPrefix(arg, "-I"):
			o.Includes = append(o.Includes, arg[2:]+value)
		case strings.HasPrefix(arg, "-isystem"):
			o.System = append(o.System, strings.TrimPrefix(arg, "-isystem")+value)
		case strings.HasPrefix(arg, "-std="):
			o.Std = strings.TrimPrefix(arg, "-std=")
		case slices.Contains([]string{"-O0", "-O1", "-O2", "-O3", "-Os", "-Ofast"}, arg):
			o.Opt = arg[2:]
		case arg == "-O":
			o.Opt = "1"
		case arg == "-g":
			o.Debug = true
		case arg == "-flto" || strings.HasPrefix(arg, "-flto="):
			o.LTO = []string{arg}
		case arg == "-fno-fat-lto-objects":
		case !strings.HasPrefix(arg, "-"):
			sources = append(sources, arg)
		default:
			o.Flags = append(o.Flags, option...)
		}
	}
	return o, sources
}
