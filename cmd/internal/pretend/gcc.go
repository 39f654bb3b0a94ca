package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gcc is g++ and gcc: it preprocesses, compiles and links.
func gcc(args []string) error {
	args, err := expanded(args)
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(args, "-v") && slices.Contains(args, "/dev/null"):
		newCPP(args).tellSearch()
	case slices.Contains(args, "-###"): // it would tell what it runs
		warn("COLLECT_GCC=%s", os.Args[0])
	case slices.Contains(args, "-M"):
		return gccDependencies(args)
	case slices.Contains(args, "-E"), slices.Contains(args, "-c"):
		return gccCompile(args)
	case slices.Contains(args, "-o"):
		return gccLink(args)
	case len(args) > 0:
		fmt.Print(answer(args))
	}
	return nil
}

// answer is what gcc says of itself. What it does not find it gives as it was asked for.
func answer(args []string) string {
	switch a := args[len(args)-1]; {
	case a == "-dumpfullversion", a == "-dumpversion":
		return "11.3.0\n"
	case a == "--version":
		return "g++ (pretend) 11.3.0\nCopyright (C) 2021 Free Software Foundation, Inc.\n"
	case a == "-Wl,--help":
		return "  --dependency-file FILE      Write dependency file\n"
	case a == "-Wl,--version":
		return ldVersion
	case a == "-print-search-dirs":
		return "install: /\nprograms: =\nlibraries: =" + os.Getenv("LIBRARY_PATH") + "\n"
	case strings.HasPrefix(a, "-print-prog-name="), strings.HasPrefix(a, "-print-file-name="):
		_, name, _ := strings.Cut(a, "=")
		if file := bin() + "/" + name; isFile(file) {
			return file + "\n"
		}
		return name + "\n"
	}
	return ""
}

// options are what a command of gcc says besides macros and folders.
type options struct {
	out, depfile string
	flags        []string // that reach the output
	inputs       []string
	beside       []string // that have the compiler write more than the object, or read a profile
	ld           linker
}

func gccOptions(args []string) options {
	var o options
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o":
			o.out = after(args, &i)
		case a == "-MF":
			o.depfile = after(args, &i)
		case a == "-L":
			o.ld.word("-L" + after(args, &i))
		case a == "-x", a == "-I", a == "-D", a == "-isystem", a == "-iquote":
			i++
		case strings.HasPrefix(a, "-Wl,"):
			words := strings.Split(a, ",")[1:]
			for k := 0; k < len(words); k++ {
				w := words[k]
				if slices.Contains([]string{"-soname", "-rpath", "-rpath-link", "-z", "-Map"}, w) {
					w += "=" + after(words, &k)
				}
				o.ld.word(w)
			}
		case a == "-c", a == "-E", a == "-MD", a == "-dU", a == "-m64", strings.HasPrefix(a, "-I"), strings.HasPrefix(a, "-D"), strings.HasPrefix(a, "-W"):
		case strings.HasPrefix(a, "-L"), strings.HasPrefix(a, "-l"):
			o.ld.word(a)
		case a == "-gsplit-dwarf", a == "--coverage", a == "-fstack-usage", strings.HasPrefix(a, "-fprofile-use"):
			o.beside = append(o.beside, a)
		case strings.HasPrefix(a, "-"):
			o.flags = append(o.flags, a)
		default:
			o.inputs = append(o.inputs, a)
			o.ld.word(a)
		}
	}
	return o
}

// gccDependencies tells what a source includes.
func gccDependencies(args []string) error {
	o := gccOptions(args)
	if len(o.inputs) != 1 {
		return fmt.Errorf("gcc: fatal error: %d input files", len(o.inputs))
	}
	p := newCPP(args)
	p.absent = slices.Contains(args, "-MG")
	if err := p.file(o.inputs[0]); err != nil {
		return err
	}
	fmt.Print(p.rule("a.o"))
	return nil
}

func gccCompile(args []string) error {
	o := gccOptions(args)
	if len(o.inputs) != 1 {
		return fmt.Errorf("gcc: fatal error: %d input files", len(o.inputs))
	}
	p := newCPP(args)
	if slices.Contains(args, "assembler") { // nothing is preprocessed
		text, err := os.ReadFile(o.inputs[0])
		if err != nil {
			return err
		}
		p.out.Write(text)
		o.depfile = ""
	} else if err := p.file(o.inputs[0]); err != nil {
		return err
	}
	if o.depfile != "" {
		if err := p.writeDeps(o.depfile, o.out); err != nil {
			return err
		}
	}
	if slices.Contains(args, "-E") {
		return os.WriteFile(o.out, []byte(p.out.String()), 0o666)
	}
	told, err := o.writeBeside(p.out.String())
	if err != nil {
		return err
	}
	object, err := o.object(told, p.out.String(), slices.Contains(args, "-Wall"))
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, object, 0o666)
}

// writeBeside writes what goes beside the object, under its name, and gives what the object holds
// for it: the name of the .dwo; where a program is to write its profile, which is a full path; and
// the profile that the compile was guided by.
func (o options) writeBeside(text string) (told string, err error) {
	stem := strings.TrimSuffix(o.out, filepath.Ext(o.out))
	here, err := os.Getwd()
	for _, option := range o.beside {
		use, dir, _ := strings.Cut(option, "=")
		switch use {
		case "-gsplit-dwarf":
			told += "dwo " + stem + ".dwo\n"
			err = errors.Join(err, os.WriteFile(stem+".dwo", []byte("dwo "+text), 0o666))
		case "--coverage":
			told += "gcda " + here + "/" + stem + ".gcda\n"
			err = errors.Join(err, os.WriteFile(stem+".gcno", fmt.Appendf(nil, "gcno %s %s\n%s", here, strings.Join(o.flags, " "), text), 0o666))
		case "-fstack-usage":
			err = errors.Join(err, os.WriteFile(stem+".su", []byte("su "+text), 0o666))
		case "-fprofile-use":
			told += option + " " + profile(dir, here, stem+".gcda") + "\n"
		}
	}
	return told, err
}

// profile is the content of a .gcda, which is beside the object or, under its whole name, in a
// folder.
func profile(dir, here, file string) string {
	if dir != "" {
		file = dir + "/" + strings.ReplaceAll(here+"/"+file, "/", "#")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		warn("warning: '%s' profile count data file not found [-Wmissing-profile]", file)
	}
	return string(text)
}

// object is what is compiled of a preprocessed text. Where lines are in it, it tells of them.
func (o options) object(told, text string, wall bool) ([]byte, error) {
	debug := slices.Contains(o.flags, "-g")
	code := fmt.Sprintf("gcc %s %s\n%s", version, strings.Join(o.flags, " "), told)
	var section string
	var fatbin []byte
	var wants []string
	for _, l := range linesOf(text) {
		if rest, ok := strings.CutPrefix(l.text, fatbinWord); ok {
			section, fatbin = parseFatbinText(rest)
			continue
		}
		if wall && strings.Contains(l.text, "unsigned_less") {
			warn("%s:%d:9: warning: comparison of integer expressions of different signedness [-Wsign-compare]", l.file, l.line)
		}
		if debug {
			code += fmt.Sprintf("%s:%d: ", l.file, l.line)
		}
		if name, ok := strings.CutPrefix(l.text, "extern void "); ok {
			name, _, _ = strings.Cut(name, "(")
			wants = append(wants, fmt.Sprintf("_Z%d%sPi", len(name), name))
		}
		taken, err := takenIn(l.text)
		if err != nil {
			return nil, err
		}
		code += strings.Join(strings.Fields(l.text), " ") + taken + "\n"
	}
	return hostObject(code, section, fatbin, wants), nil
}

// takenIn is what the assembler takes in for a line of assembler, or of C with it in a string.
func takenIn(line string) (string, error) {
	_, rest, ok := strings.Cut(strings.ReplaceAll(line, `\"`, `"`), `.incbin "`)
	if !ok {
		return "", nil
	}
	name, _, _ := strings.Cut(rest, `"`)
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("as: file not found: %s", name)
	}
	return fmt.Sprintf(" %x", sha256.Sum256(text)), nil
}

// place is a line of a text and where it was written.
type place struct {
	file string
	line int
	text string
}

// linesOf are the lines of a preprocessed text that hold something. One without line markers has
// their numbers in itself.
func linesOf(text string) (lines []place) {
	at := place{file: "-", line: 1}
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if rest, ok := strings.CutPrefix(l, "# "); ok {
			fmt.Sscanf(rest, "%d %q", &at.line, &at.file)
			continue
		}
		if l != "" && l[0] != '#' {
			lines = append(lines, place{at.file, at.line, l})
		}
		at.line++
	}
	return lines
}
