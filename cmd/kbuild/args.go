package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/term"
)

// Most runs come from an editor or a Makefile, use few options and find nothing to do. Setting up
// kong's parser takes as long as checking a thousand files. The simplest command lines are
// therefore parsed by hand.

// plain parses command lines that have no options but -q, -j N, -C DIR and --mem SIZE. It returns
// false, and leaves c unchanged, for every other command line. TestPlain checks that it agrees with
// kong.
func (c *cli) plain(args []string) bool {
	read := *c
	read.Dir, read.Progress, read.Color, read.Output, read.RemoteJobs = ".", "auto", "auto", "auto", 64
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

// otherTools maps words of CMake, make, ninja, Cargo and ccache to their equivalents in kbuild. The
// words are the first argument that kbuild rejected and the arguments after it.
var otherTools = [...]struct{ words, own string }{
	{`^-t ?clean`, "kbuild clean"},
	{`^-t ?(graph|compdb)`, "kbuild $1"},
	{`^-t ?targets`, "kbuild plan --list"},
	{`^-d ?explain`, "kbuild why"},
	{`^-D ?CMAKE_BUILD_TYPE|^--(release|debug|config|preset)|^(release|debug)$`,
		"kbuild --profile NAME, for a profile block of the manifest"},
	{`^-D ?CMAKE_(CUDA|HIP)_ARCHITECTURES`, "kbuild --arch LIST, or code of the manifest"},
	{`^-D ?(\w+)(?::\w+)?=(\S*)`,
		"kbuild --var $1=$2, for a variable of the manifest; a macro is in its defines"},
	{`^-B[ =]?(\S+)`, "kbuild --build-dir $1"},
	{`^-S[ =]?(\S+)`, "kbuild -C $1"},
	{`^--build\b`, "kbuild, which needs no configure step"},
	{`^--target[ =](\S+)`, "kbuild $1"},
	{`^--parallel[ =](\d+)`, "kbuild -j $1"},
	{`^(-s|--silent)( |$)`, "kbuild -q"},
	{`^all$`, "kbuild, which builds the group default, or else everything"},
	{`^(clear|distclean|mrproper)$`, "kbuild clean"},
	{`^check$`, "kbuild test"},
	{`^(\w+)=(\S*)$`, "kbuild --var $1=$2, for a variable of the manifest"},
	{`^cache (clear|clean|purge|delete|empty|rm)\b`, "kbuild cache gc --max-size 1, to empty it"},
}

// ownWords returns kbuild's equivalent for the words of another tool, or "".
func ownWords(words string) string {
	for _, o := range otherTools {
		re := regexp.MustCompile(o.words)
		if m := re.FindStringSubmatchIndex(words); m != nil {
			return string(re.ExpandString(nil, o.own, words, m))
		}
	}
	return ""
}

// refused returns the error message for rejected arguments, and what to try instead.
func refused(args []string, err error, flags []*kong.Flag) (message, try string) {
	message, try = err.Error(), "kbuild --help"
	if fact, _, ok := strings.Cut(message, ", did you mean one of"); ok {
		message = fact // the suggestion lists every one-letter option
	}
	if fact, _, ok := strings.Cut(message, " (short flag); perhaps try"); ok {
		message = strings.Replace(fact, "expected value value but got ", "", 1) + " is not a value"
	}
	word, isFlag := strings.CutPrefix(message, "unknown flag ")
	word, _, _ = strings.Cut(strings.TrimPrefix(word, "unexpected argument "), ",")
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, word) })
	if at < 0 {
		return message, try
	}
	command := commandAt(args, flags)
	from := at
	if !isFlag && command < at {
		from = command
	}
	if isFlag && command < at && args[command] == "run" {
		ours, program := args[:at], args[at:]
		return message, term.ShellQuote(slices.Concat([]string{"kbuild"}, ours, []string{"--"}, program))
	}
	if own := ownWords(strings.Join(args[from:], " ")); own != "" {
		try = own
	}
	return message, try
}

// commandAt returns the index of the first argument that is neither an option nor its value.
func commandAt(args []string, flags []*kong.Flag) int {
	for i := 0; i < len(args); i++ {
		switch {
		case hasValue(args[i], flags):
			i++
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return len(args)
}
