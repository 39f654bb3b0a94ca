package main

import (
	"bytes"
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
	case slices.Contains(args, "-dumpfullversion"):
		fmt.Println("11.3.0")
	case slices.Contains(args, "--version"):
		fmt.Println("g++ (pretend) 11.3.0")
	case slices.Contains(args, "-Wl,--help"):
		fmt.Println("  --dependency-file FILE      Write dependency file")
	case slices.Contains(args, "-print-search-dirs"):
		fmt.Println("install: /\nprograms: =\nlibraries: =")
	case slices.Contains(args, "-v") && slices.Contains(args, "/dev/null"):
		newCPP(args).tellSearch()
	case slices.Contains(args, "-E"), slices.Contains(args, "-c"):
		return gccCompile(args)
	case slices.Contains(args, "-o"):
		return gccLink(args)
	}
	return nil
}

// options are what a command of gcc says besides macros and folders.
type options struct {
	out, depfile string
	flags        []string // that reach the output
	inputs       []string
	libs, dirs   []string
	linkDeps     string
}

func gccOptions(args []string) options {
	var o options
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o":
			o.out = after(args, &i)
		case a == "-MF":
			o.depfile = after(args, &i)
		case a == "-x", a == "-I", a == "-D", a == "-isystem", a == "-iquote", a == "-L":
			if v := after(args, &i); a == "-L" {
				o.dirs = append(o.dirs, v)
			}
		case a == "-c", a == "-E", a == "-MD", a == "-dU", a == "-m64", strings.HasPrefix(a, "-I"), strings.HasPrefix(a, "-D"), strings.HasPrefix(a, "-W") && !strings.HasPrefix(a, "-Wl,"):
		case strings.HasPrefix(a, "-Wl,--dependency-file="):
			o.linkDeps = strings.TrimPrefix(a, "-Wl,--dependency-file=")
		case strings.HasPrefix(a, "-L"):
			o.dirs = append(o.dirs, a[2:])
		case strings.HasPrefix(a, "-l"):
			o.libs = append(o.libs, a[2:])
		case strings.HasPrefix(a, "-"):
			o.flags = append(o.flags, a)
		default:
			o.inputs = append(o.inputs, a)
		}
	}
	return o
}

func gccCompile(args []string) error {
	o := gccOptions(args)
	if len(o.inputs) != 1 {
		return fmt.Errorf("gcc: fatal error: %d input files", len(o.inputs))
	}
	p := newCPP(args)
	if err := p.file(o.inputs[0]); err != nil {
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
	return os.WriteFile(o.out, o.object(p.out.String(), slices.Contains(args, "-Wall")), 0o666)
}

// object is what is compiled of a preprocessed text. Where lines are in it, it tells of them.
func (o options) object(text string, wall bool) []byte {
	debug := slices.Contains(o.flags, "-g")
	code := fmt.Sprintf("gcc %s %s\n", version, strings.Join(o.flags, " "))
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
		code += strings.Join(strings.Fields(l.text), " ") + "\n"
	}
	return hostObject(code, section, fatbin, wants)
}

// place is a line of a text and where it was written.
type place struct {
	file string
	line int
	text string
}

// linesOf are the lines of a preprocessed text that hold something. One without line markers has their numbers in itself.
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

// systemLibs are libraries that a linker finds by itself.
const systemLibs = " cudart_static cudart cudadevrt rt pthread dl m stdc++ "

// gccLink makes a program of all that it is given, in order.
func gccLink(args []string) error {
	o := gccOptions(args)
	var read []string
	var b bytes.Buffer
	fmt.Fprintf(&b, "PROGRAM %s %s\n", version, strings.Join(o.flags, " "))
	add := func(file string) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("ld: cannot find %s: No such file or directory", file)
		}
		read = append(read, file)
		fmt.Fprintf(&b, "%x\n", sha256.Sum256(text))
		return nil
	}
	for _, in := range o.inputs {
		if err := add(in); err != nil {
			return err
		}
	}
	for _, lib := range o.libs {
		file := o.library(lib)
		if file == "" && strings.Contains(systemLibs, " "+lib+" ") {
			continue
		}
		if file == "" {
			return fmt.Errorf("ld: cannot find -l%s: No such file or directory", lib)
		}
		if err := add(file); err != nil {
			return err
		}
	}
	if o.linkDeps != "" {
		if err := os.WriteFile(o.linkDeps, []byte(o.out+": "+strings.Join(read, " \\\n  ")+"\n"), 0o666); err != nil {
			return err
		}
	}
	return os.WriteFile(o.out, b.Bytes(), 0o777)
}

// library is what the linker takes for -l; "" if there is none.
func (o options) library(name string) string {
	for _, d := range append(o.dirs, filepath.SplitList(os.Getenv("LIBRARY_PATH"))...) {
		for _, ending := range []string{".so", ".a"} {
			if file := d + "/lib" + name + ending; isFile(file) {
				return file
			}
		}
	}
	return ""
}

// ar is `ar qcsD OUT MEMBERS`.
func ar(args []string) error {
	args, err := expanded(args)
	if err != nil {
		return err
	}
	if len(args) < 2 {
		return errors.New("")
	}
	if args[0] == "--version" {
		fmt.Println("GNU ar (pretend) 2.40")
		return nil
	}
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range args[2:] {
		text, err := os.ReadFile(m)
		if err != nil {
			return fmt.Errorf("ar: %s: No such file or directory", m)
		}
		name := filepath.Base(m) + "/"
		if len(name) > 16 {
			return fmt.Errorf("ar: the name %s is too long for a tool that pretends", m)
		}
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o644, len(text))
		b.Write(text)
		if len(text)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return os.WriteFile(args[1], b.Bytes(), 0o666)
}
