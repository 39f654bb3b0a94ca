package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Most runs of kbuild are plain ones, from an editor or a Makefile, and most of them find nothing
// to do. Setting up the parser of the command line takes as long as looking at a thousand files, so
// the plainest command lines are read by hand.

// plain reads -q, -j N, -C DIR and --mem SIZE, and nothing else; of any other line it leaves c as
// it is. TestPlain holds it to what the parser makes of them.
func (c *cli) plain(args []string) bool {
	read := *c
	read.Dir, read.Progress, read.Color, read.Output = ".", "auto", "auto", "auto"
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if a == "-q" {
			read.Quiet = true
			continue
		}
		option, value, ok := valued(a)
		if !ok {
			return false
		}
		if value == "" && a == option && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if value == "" || strings.ContainsAny(value[:1], "-=") || !read.setPlain(option, value) {
			return false
		}
	}
	*c = read
	return true
}

// valued takes apart an option that has a value, which may be the next argument.
func valued(arg string) (option, value string, ok bool) {
	if option, value, _ := strings.Cut(arg, "="); option == "--mem" {
		return option, value, true
	}
	if strings.HasPrefix(arg, "-j") || strings.HasPrefix(arg, "-C") {
		return arg[:2], arg[2:], true
	}
	return "", "", false
}

func (c *cli) setPlain(option, value string) bool {
	var err error
	switch option {
	case "-C":
		c.Dir = value
	case "-j":
		err = c.Jobs.UnmarshalText([]byte(value))
	case "--mem":
		err = c.Mem.UnmarshalText([]byte(value))
	}
	return err == nil
}

// bareTrace spells the --trace of `kbuild cache verify --trace` as the parser has it: elsewhere
// --trace is followed by a file. There --trace=FILE still means that.
func bareTrace(args []string, flags []*kong.Flag) []string {
	for i := range args[:max(0, len(args)-1)] {
		if args[i] != "cache" || args[i+1] != "verify" || i > 0 && hasValue(args[i-1], flags) {
			continue
		}
		out := slices.Clone(args)
		for j := i + 2; j < len(out) && out[j] != "--"; j++ {
			if out[j] == "--trace" {
				out[j] = "--strace"
			}
		}
		return out
	}
	return args
}

// hasValue reports an option whose value is the next argument.
func hasValue(arg string, flags []*kong.Flag) bool {
	return slices.ContainsFunc(flags, func(f *kong.Flag) bool {
		return !f.IsBool() && (arg == "--"+f.Name || f.Short != 0 && arg == "-"+string(f.Short))
	})
}

// programArgs separates the arguments of the program, which follow the -- of `kbuild run TARGET --
// ARGS`.
func programArgs(args []string, flags []*kong.Flag) (own, given []string) {
	end := slices.Index(args, "--")
	if command := commandAt(args, flags); end > command && args[command] == "run" {
		return args[:end], args[end+1:]
	}
	return args, nil
}
