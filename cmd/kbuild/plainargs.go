package main

import "strings"

// Most runs of kbuild are plain ones, from an editor or a Makefile, and most of them find nothing to do. Setting up the parser
// of the command line takes as long as looking at a thousand files, so the plainest command lines are read by hand.

// plain reads -q, -j N, -C DIR and --mem SIZE, and nothing else. TestPlain holds it to what the parser makes of them.
func plain(args []string) (*cli, bool) {
	c := &cli{Dir: ".", Progress: "auto", Color: "auto"}
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if a == "-q" {
			c.Quiet = true
			continue
		}
		option, value, ok := valued(a)
		if !ok {
			return nil, false
		}
		if value == "" && a == option && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if value == "" || strings.ContainsAny(value[:1], "-=") || !c.setPlain(option, value) {
			return nil, false
		}
	}
	return c, true
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
