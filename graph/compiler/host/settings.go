package host

import (
	"slices"
	"strings"
)

// ReadOptions reads the options of a compile of gcc or clang, with or without the names of its files: what Compile was given, had it written
// them. sources are the words that are no options.
func ReadOptions(words []string) (o Options, sources []string) {
	for i := 0; i < len(words); i++ {
		arg, value := words[i], ""
		if slices.Contains(takesValue(), arg) && i+1 < len(words) {
			i++
			value = words[i]
		}
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
		case value != "":
			o.Flags = append(o.Flags, arg, value)
		default:
			o.Flags = append(o.Flags, arg)
		}
	}
	return o, sources
}
