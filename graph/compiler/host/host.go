// Package host builds the command lines of compilers of C, C++ and assembler, of archivers and
// linkers, gcc's and clang's, and knows what their options have them do and where they search. It
// is pure: it runs nothing and looks nothing up.
package host

import "strings"

// Options are the attributes of a target that reach the host compiler.
type Options struct {
	Std      string // "c++17", "c11"
	Opt      string
	Includes []string
	System   []string // toolkit include folders, searched after all others
	Defines  []string
	Debug    bool
	PIC      bool
	LTO      []string // of LTO
	Flags    []string
}

// Languages of assembler source, as -x names them: as it is, and with directives for the
// preprocessor.
const (
	Assembler        = "assembler"
	AssemblerWithCPP = "assembler-with-cpp"
)

// Compile gives the argv that compiles a C, C++ or assembler source with a gcc-like compiler.
// language is "c" or "c++" when the ending of source does not say so, one of assembler, else "".
// For Assembler it has nothing that is for a preprocessor: clang warns of that, and with -Werror it
// fails.
func Compile(compiler, source, output, depfile, language string, o Options) []string {
	argv := append(make([]string, 0, 32), compiler, "-c") // on the stack: there may be 100,000, and room to grow is not for them
	if o.Std != "" {
		argv = append(argv, "-std="+o.Std)
	}
	if o.Opt != "" {
		argv = append(argv, "-O"+o.Opt)
	}
	if o.Debug {
		argv = append(argv, "-g")
	}
	if o.PIC {
		argv = append(argv, "-fPIC")
	}
	if language == Assembler {
		o.Defines, o.System = nil, nil
	}
	for _, d := range o.Defines {
		argv = append(argv, "-D"+d)
	}
	for _, i := range o.Includes {
		argv = append(argv, "-I"+i)
	}
	for _, i := range o.System {
		argv = append(argv, "-isystem", i)
	}
	argv = append(argv, o.LTO...)
	argv = append(argv, o.Flags...)
	if depfile != "" {
		argv = append(argv, "-MD", "-MF", depfile)
	}
	if language != "" {
		argv = append(argv, "-x", language)
	}
	argv = append(argv, "-o", output, source)
	return append([]string(nil), argv...)
}

// Archive gives the argv that makes a static library: members appended in order, so that two of one
// base name both stay; no times or owners, so that equal members give equal bytes.
// Arguments from index 3 on may go into a response file.
func Archive(ar, output string, members []string) []string {
	return append([]string{ar, "qcsD", output}, members...)
}

// DependencyFile is the linker option that writes what it read: GNU ld from 2.35 and lld.
const DependencyFile = "--dependency-file="

// TraceLink has GNU ld say which files it tries to open. It says so on its standard output.
const TraceLink = "-Wl,--verbose"

// LinkOptions is the link of an executable or a shared library.
type LinkOptions struct {
	Objects  []string // own objects and the linked device code, which names members of Archives
	Whole    []string // static libraries of which all objects are linked
	Archives []string // other static libraries, users before what they use
	Shared   []string // shared libraries, by file
	Libs     []string // -l
	LibDirs  []string // -L
	CUDALibs []string // -l of the toolkit, last
	CUDADirs []string // -L of the toolkit
	RPaths   []string // "$ORIGIN/../lib"
	Needed   []string // folders of the libraries that shared libraries need in turn: -rpath-link
	SOName   string   // shared library: DT_SONAME
	LTO      []string // of LTO
	Flags    []string
	Trace    bool   // the linker is GNU ld, and gets TraceLink
	Depfile  string // written by the linker: every file it opened; "" for a linker that cannot
	Output   string
}

// Link gives the argv of a host link. Archives stand in one group, since libraries of a manifest
// may use each other in any order. Arguments from index 1 on may go into a response file.
func Link(compiler string, l LinkOptions) []string {
	argv := []string{compiler}
	if l.SOName != "" {
		argv = append(append(argv, "-shared"), ForLinker("-soname", l.SOName)...)
	}
	if l.Depfile != "" {
		argv = append(argv, ForLinker(DependencyFile+l.Depfile)...)
	}
	if l.Trace {
		argv = append(argv, TraceLink)
	}
	argv = append(argv, l.LTO...)
	argv = append(argv, "-o", l.Output)
	argv = append(argv, l.Objects...)
	if len(l.Whole) > 0 {
		argv = append(argv, "-Wl,--whole-archive")
		argv = append(argv, l.Whole...)
		argv = append(argv, "-Wl,--no-whole-archive")
	}
	if len(l.Archives) > 1 {
		argv = append(argv, "-Wl,--start-group")
		argv = append(argv, l.Archives...)
		argv = append(argv, "-Wl,--end-group")
	} else {
		argv = append(argv, l.Archives...)
	}
	argv = append(argv, l.Shared...)
	argv = append(argv, l.Flags...)
	argv = append(argv, libArgs(l.LibDirs, l.Libs)...)
	argv = append(argv, libArgs(l.CUDADirs, l.CUDALibs)...)
	for _, r := range l.RPaths {
		argv = append(argv, ForLinker("-rpath", r)...)
	}
	for _, dir := range l.Needed {
		argv = append(argv, ForLinker("-rpath-link", dir)...)
	}
	return argv
}

// ForLinker hands words to the linker. -Wl, splits its value at commas, and nothing keeps one.
func ForLinker(words ...string) (argv []string) {
	if list := strings.Join(words, ","); strings.Count(list, ",") == len(words)-1 {
		return []string{"-Wl," + list}
	}
	for _, w := range words {
		argv = append(argv, "-Xlinker", w)
	}
	return argv
}

func libArgs(dirs, libs []string) []string {
	var argv []string
	for _, d := range dirs {
		argv = append(argv, "-L"+d)
	}
	for _, l := range libs {
		argv = append(argv, "-l"+l)
	}
	return argv
}
