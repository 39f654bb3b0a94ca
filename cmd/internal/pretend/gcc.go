package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gcc acts as gcc and g++: it preprocesses, compiles and links.
func gcc(args []string) error {
	args, err := expanded(args)
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(args, "-v") && slices.Contains(args, "/dev/null"):
		newCPP(args).tellSearch()
	case slices.Contains(args, "-###"): // print the commands
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

// answer returns the reply to a query of gcc. A file or program that is not found is returned as
// named in the query.
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

// options holds the options of a gcc command other than macros and folders.
type options struct {
	out, depfile string
	flags        []string // that affect the output
	inputs       []string
	beside       []string // that write files next to the object, or read a profile
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

// gccDependencies prints the files that a source includes.
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
	if slices.Contains(args, "assembler") { // not preprocessed
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

// writeBeside writes the files next to the object. It returns text for the object: the name of the
// .dwo, the absolute path of the profile to write, and the profile used.
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

// profile returns the content of a .gcda file. The file is next to the object, or in dir under its
// full path with '#' for '/'.
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

// object compiles a preprocessed text. With -g the code contains the line numbers.
func (o options) object(told, text string, wall bool) ([]byte, error) {
	debug := slices.Contains(o.flags, "-g")
	code := fmt.Sprintf("gcc %s %s\n%s", version, strings.Join(o.flags, " "), told)
	var section string
	var fatbin []byte
	var wants []string
	for _, l := range linesOf(text) {
		if rest, ok := strings.CutPrefix(l.text, fatbinWord); ok {
			rest, digits, _ := strings.Cut(rest, " ")
			section = rest
			fatbin, _ = hex.DecodeString(strings.TrimSpace(digits))
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

// takenIn returns a digest of the file that .incbin includes in a line of assembler or C.
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

// place is a line of a text and its position in the source.
type place struct {
	file string
	line int
	text string
}

// linesOf returns the non-blank lines of a preprocessed text. A text without line markers has its
// own line numbers.
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
