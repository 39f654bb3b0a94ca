package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const ldVersion = "GNU ld (pretend) 2.40\n"

// linker holds the options of a link.
type linker struct {
	files         []linked
	dirs          []string
	flags         []string // that affect the output
	static        bool     // for the libraries that follow
	depfile, list string
	verbose       bool
	trace         bytes.Buffer
	read          []string
}

// linked is a file or a library, in command line order.
type linked struct {
	name        string
	lib, static bool
}

// word interprets an option of the linker, or a file.
func (l *linker) word(w string) {
	option, value, _ := strings.Cut(w, "=")
	switch {
	case option == "--dependency-file":
		l.depfile = value
	case option == "-Map":
		l.list = value
	case w == "--verbose":
		l.verbose = true
	case w == "-Bstatic", w == "-Bdynamic":
		l.static = w == "-Bstatic"
	case strings.HasPrefix(w, "-L"):
		l.dirs = append(l.dirs, w[2:])
	case strings.HasPrefix(w, "-l"):
		l.files = append(l.files, linked{w[2:], true, l.static})
	case strings.HasPrefix(w, "-"):
		l.flags = append(l.flags, w)
	default:
		l.files = append(l.files, linked{w, false, false})
	}
}

// systemLibs lists the libraries that the linker always finds.
const systemLibs = " cudart_static cudart cudadevrt rt pthread dl m stdc++ "

// gccLink builds a program from its inputs, in order. lto1 compiles intermediate code even if the
// link has no -flto.
func gccLink(args []string) error {
	o := gccOptions(args)
	l := &o.ld
	l.dirs = append(l.dirs, filepath.SplitList(os.Getenv("LIBRARY_PATH"))...)
	var b bytes.Buffer
	fmt.Fprintf(&b, "PROGRAM %s %s\n", version, strings.Join(append(o.flags, l.flags...), " "))
	lto := false
	for _, in := range l.files {
		file, err := l.find(in)
		if err != nil {
			return err
		}
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("ld: cannot find %s: No such file or directory", file)
		}
		l.read = append(l.read, file)
		lto = lto || bytes.Contains(text, []byte(" -flto"))
		fmt.Fprintf(&b, "%x\n", sha256.Sum256(text))
	}
	if lto {
		is, _ := os.Readlink(bin() + "/lto1")
		fmt.Fprintf(&b, "lto1 %s\n", is)
	}
	text := b.Bytes()
	if slices.Contains(o.flags, "-shared") { // other links read it
		text = hostObject(b.String(), "", nil, nil)
		binary.LittleEndian.PutUint16(text[16:], uint16(elf.ET_DYN))
	}
	return errors.Join(l.tell(o.out), os.WriteFile(o.out, text, 0o777))
}

// find returns the file for an argument. It returns "" for a system library. In each folder shared
// libraries take precedence.
func (l *linker) find(in linked) (string, error) {
	endings := []string{".so", ".a"}
	if in.static {
		endings = endings[1:]
	}
	if !in.lib {
		fmt.Fprintf(&l.trace, "%s\n", in.name)
		return in.name, nil
	}
	names := []string{"lib" + in.name + endings[0], "lib" + in.name + endings[len(endings)-1]}
	if name, ok := strings.CutPrefix(in.name, ":"); ok { // -l:NAME
		names = []string{name}
	}
	for _, d := range l.dirs {
		for _, name := range slices.Compact(names) {
			file := d + "/" + name
			if isFile(file) {
				fmt.Fprintf(&l.trace, "attempt to open %[1]s succeeded\n%[1]s\n", file)
				return file, nil
			}
			fmt.Fprintf(&l.trace, "attempt to open %s failed\n", file)
		}
	}
	if strings.Contains(systemLibs, " "+in.name+" ") {
		return "", nil
	}
	return "", fmt.Errorf("ld: cannot find -l%s: No such file or directory", in.name)
}

// tell writes the files that were read and probed, in each requested format.
func (l *linker) tell(out string) (err error) {
	if l.verbose {
		const bar = "==================================================\n"
		fmt.Print(ldVersion + "using internal linker script:\n" + bar + bar + "ld: mode elf_x86_64\n" + l.trace.String())
	}
	if l.depfile != "" {
		err = os.WriteFile(l.depfile, []byte(out+": "+strings.Join(l.read, " \\\n  ")+"\n"), 0o666)
	}
	if l.list != "" {
		err = errors.Join(err, os.WriteFile(l.list, []byte("Memory map\nLOAD "+strings.Join(l.read, "\nLOAD ")+"\n"), 0o666))
	}
	return err
}

// ar handles `ar [--plugin FILE] qcsD OUT MEMBERS`.
func ar(args []string) error {
	args, err := expanded(args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return errors.New("")
	}
	if args[0] == "--plugin" && len(args) > 2 {
		args = args[2:]
	}
	if args[0] == "--version" {
		fmt.Println("GNU ar (pretend) 2.40")
		return nil
	}
	if len(args) < 2 {
		return errors.New("")
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
