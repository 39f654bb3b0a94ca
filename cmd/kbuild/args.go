package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Most runs come from an editor or a Makefile, use few options and find nothing to do. Setting up
// kong's parser takes as long as checking a thousand files. The simplest command lines are
// therefore parsed by hand.

// plain parses command lines that have no options but -q, -j N, -C DIR and --mem SIZE. It returns
// false, and leaves c unchanged, for every other command line. TestPlain checks that it agrees with
// kong.
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

// valued splits an option that takes a value. An empty value means that the value is the next
// argument.
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

// bareTrace rewrites the --trace of `kbuild cache verify --trace` to the option that the parser
// knows, --strace. For other commands --trace takes a file, and --trace=FILE means that here too.
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

// hasValue reports whether the option takes the next argument as its value.
func hasValue(arg string, flags []*kong.Flag) bool {
	return slices.ContainsFunc(flags, func(f *kong.Flag) bool {
		return !f.IsBool() && (arg == "--"+f.Name || f.Short != 0 && arg == "-"+string(f.Short))
	})
}

// programArgs splits off the arguments of the program: those after the -- of `kbuild run TARGET --
// ARGS`.
func programArgs(args []string, flags []*kong.Flag) (own, given []string) {
	end := slices.Index(args, "--")
	if command := commandAt(args, flags); end > command && args[command] == "run" {
		return args[:end], args[end+1:]
	}
	return args, nil
}
