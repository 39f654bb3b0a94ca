// Package host knows gcc's and clang's compilers of C, C++ and assembler, and their archivers and
// linkers. It builds their command lines and interprets their options and search folders. It is
// pure: it runs no program and reads no file.
package host

import "strings"

// Options holds the attributes of a target that reach the host compiler.
type Options struct {
	Std      string // "c++17", "c11"
	Opt      string
	Includes []string
	System   []string // toolkit include folders, searched after all others
	Defines  []string
	Debug    bool
	PIC      bool
	LTO      []string // options of type LTO
	Flags    []string
}

// Languages of assembler source for -x: without and with preprocessor directives.
const (
	Assembler        = "assembler"
	AssemblerWithCPP = "assembler-with-cpp"
)

// Compile returns the argv that compiles a C, C++ or assembler source with a gcc-like compiler.
// language is "c" or "c++" if the extension of source does not imply it, one of assembler, else "".
// Assembler gets no preprocessor options: clang warns about them, which is an error with -Werror.
func Compile(compiler, source, output, depfile, language string, o Options) []string {
	// The buffer is on the stack. There may be 100,000 results, which should not keep spare
	// capacity.
	argv := append(make([]string, 0, 32), compiler, "-c")
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

// Archive returns the argv that writes a static library. Members are appended in order, so that two
// with the same base name both stay. Times and owners are omitted, so that equal members result in
// equal bytes. Arguments from index 3 on may go into a response file.
func Archive(ar, output string, members []string) []string {
	return append([]string{ar, "qcsD", output}, members...)
}

// DependencyFile is the linker option that writes the list of files it read: GNU ld from 2.35 and
// lld.
const DependencyFile = "--dependency-file="

// TraceLink makes GNU ld print the files that it tries to open, on standard output.
const TraceLink = "-Wl,--verbose"

// LinkOptions describes the link of an executable or a shared library.
type LinkOptions struct {
	Objects  []string // own objects and the linked device code, which refers to members of Archives
	Whole    []string // static libraries that are linked with all objects
	Archives []string // other static libraries, dependents before their dependencies
	Shared   []string // shared libraries, by file
	Libs     []string // -l
	LibDirs  []string // -L
	CUDALibs []string // -l of the toolkit, last
	CUDADirs []string // -L of the toolkit
	RPaths   []string // "$ORIGIN/../lib"
	Needed   []string // folders of the transitive dependencies of shared libraries: -rpath-link
	SOName   string   // shared library: DT_SONAME
	LTO      []string // options of type LTO
	Flags    []string
	Trace    bool   // the linker is GNU ld, and gets TraceLink
	Depfile  string // the linker writes every file that it opened there; "" if it cannot
	Output   string
}

// Link returns the argv of a host link. Archives are in one group, since libraries of a manifest
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

// ForLinker passes words to the linker. -Wl, splits its value at commas, and nothing can quote one.
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
