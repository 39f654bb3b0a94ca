package graph

import (
	"path"
	"strings"
	"time"
)

// Work holds the fields of an action that only some kinds have.
type Work struct {
	Response *Response         // nil if none of its programs reads response files
	Keep     *KeepFolder       // of a command that writes to a folder of its own
	Manifest *ManifestTemplate // of the kind Manifest
	Driver   *Driver           // of an unsplit driver command, or of its passes

	// Of a compiler command that does more than read a source and write an object.
	Pass    *CompilerPass
	Link    *Link    // of a device link
	Test    *TestRun // of a test
	Collect *Collect // of a command with dynamic outputs

	Container Container // of the kind Join
}

// Container identifies how an object holds its device code.
type Container int32

const (
	NVCCFatbin   Container = iota // a fatbin, as nvcc puts it into host code
	ClangFatbin                   // a fatbin, as clang does
	ClangBundle                   // a bundle of HIP
	ClangOffload                  // relocatable code of clang's new offload driver
)

// Placeholder is in the place of device code while clang compiles host code. No program has this
// literal, see fatbin.ClangPlace.
const Placeholder = "The device code of this object belongs here: kbuild puts it in place of this text.\n"

// Driver returns that of a's work, or an empty one.
func (a *Action) Driver() Driver { return valueOf(a.Work.Driver) }

// Pass returns that of a's work, or an empty one.
func (a *Action) Pass() CompilerPass { return valueOf(a.Work.Pass) }

// Link returns that of a's work, or an empty one.
func (a *Action) Link() Link { return valueOf(a.Work.Link) }

// Test returns that of a's work, or an empty one.
func (a *Action) Test() TestRun { return valueOf(a.Work.Test) }

func valueOf[T any](p *T) (t T) {
	if p != nil {
		t = *p
	}
	return t
}

// Response makes the executor write Argv[From:] to a response file if the command line would be too
// long. It passes Flag joined with its path instead ("@" for gcc and ar; "--options-file=" for
// nvcc).
type Response struct {
	From int
	Flag string
	List bool // the path is in a list, whose elements may be quoted: see toolchain.ListWord
}

// KeepFolder is a folder of its own that a command writes to. Files in it become the outputs, in
// order.
type KeepFolder struct {
	Dir   string
	Files []string
}

// ManifestTemplate is the part of a module's manifest that is known at plan time.
type ManifestTemplate string

// Driver describes a compiler driver's command: this action itself, or the command that this action
// is a pass of.
type Driver struct {
	Argv          []string // the command that this action is a pass of; nil if it is that command
	DryRunKey     string   // key of the dry run that shows the passes
	UnsplitReason string   // why the command is unsplit
	Fallback      bool     // unsplit without the user's choice

	// Ships lists the codes that the output must have. It must have all of them if it has any, or
	// if an input of a link has any. Compilers and linkers drop code with exit status 0.
	Ships []string
}

// PassOf identifies the compiler's command that the action is a pass of: the words of that command.
// It is "" for an action that is no pass. Passes that are decoded from a stored plan share no
// Driver.
func (a *Action) PassOf() string { return strings.Join(a.Driver().Argv, "\x00") }

// DriverName returns the program of the action's command, or of the command that it is a pass of:
// "nvcc", "clang++-19".
func (a *Action) DriverName() string {
	if argv := a.Driver().Argv; len(argv) > 0 {
		return path.Base(argv[0])
	}
	if len(a.Argv) > 0 {
		return path.Base(a.Argv[0])
	}
	return string(a.Kind)
}

// CompilerPass describes a compiler command that does more than read a source and write an object.
type CompilerPass struct {
	// DiagnosticInputs affect messages, never output bytes: they hold line numbers. They are in the
	// key if the command printed something. In that case it runs again with DiagnosticArgv for true
	// line numbers, unless that is nil.
	DiagnosticInputs []string
	DiagnosticArgv   []string

	UnkeyedPaths []string // files that Argv names for messages but does not read: the source

	// DepfileArgvs write the dependency files of passes that Argv runs but whose headers its own
	// dependency file omits. Each writes to Depfile.
	DepfileArgvs [][]string

	// TextArgv writes everything that Argv reads of the project and of headers as one text. Argv
	// compiled from that text has the same output. It is for remote execution; nil if there is no
	// such text.
	TextArgv []string

	CanonicalForms []CanonicalForm // outputs that the executor derives from other outputs

	// Macros of Argv whose value is in the key only if the text uses them.
	Macros []string

	// Output with the list of files that a text, Outputs[0], was preprocessed from; it is kept
	// where the text is not.
	FilesOutput   string
	WithoutSystem bool   // FilesOutput omits headers of the system
	DepfileOutput string // output that is a copy of the dependency file

	// Output that registers kernels and variables, which the host code includes. It names itself in
	// line markers, where the executor writes StubName.
	Stub string

	Staged []StagedFile // files that the executor writes to a folder of the action's own

	// Debug information records the paths of the staged files during the run.
	StageInKey bool

	Gate     bool // the command writes nothing; if it succeeds, Outputs[0] is Inputs[0]
	EmptyCwd bool // runs in an empty folder, with absolute paths: it must not find the sources

	// Kbuild added -v to Argv for the resource usage that ptxas prints: the user does not see it.
	ResourceUsage bool
}

// StageDir is the placeholder in argv and in staged texts for the folder of CompilerPass.Staged:
// "<stage>/kernels.stub.c".
const StageDir = "<stage>"

// StubName is the name of each CompilerPass.Stub where it is staged.
const StubName = "kernels.stub.c"

// StagedFile is a file of CompilerPass.Staged. It is Text, the content of the file From, or a link to Link,
// which is part of a tool of the action.
type StagedFile struct {
	Name string
	Text string
	From string
	Link string
}

// CanonicalForm derives the output Canon from the preprocessed text Raw, without line numbers and
// blank space. DropFalse also removes the text in #if 0.
type CanonicalForm struct {
	Raw       string
	Canon     string
	DropFalse bool
}

// Link describes a device link by nvlink. nvlink exits 0 while it drops code, so its messages
// decide (facts: "SM Arch not found", "Ignoring -dlto", "not built for LTO").
type Link struct {
	LTO   bool
	Check bool // only test whether it links: --check-link

	// Files that may be "not built for LTO": rdc objects, prebuilts with lto = "none".
	NonLTO         []string
	UnknownOptions []string // inputs whose LTO-IR does not record its options, for messages

	// Inputs with LTO-IR of another, possibly newer, toolkit, for messages.
	Foreign  []string
	Owners   map[string]string // input path -> label of its target, for messages
	OwnerPos map[string]Pos    // input path -> position of that target

	// HostRefs is the output of the HostRefs action, for a link that removes unreferenced code.
	// KeepsAll is the reason why a link removes nothing.
	HostRefs string
	KeepsAll string
}

// TestRun describes how the program of a test runs.
type TestRun struct {
	// Folders in front of LD_LIBRARY_PATH: the key has the content of what it loads from them, but
	// not their paths.
	LibDirs []string
	GPU     bool          // it runs on the GPUs that the user selects
	Each    bool          // it always runs
	Timeout time.Duration // 0 is none
}

// Reads returns the declared inputs of a, including diagnostic ones.
func (a *Action) Reads() []string {
	return append(a.Inputs[:len(a.Inputs):len(a.Inputs)], a.Pass().DiagnosticInputs...)
}

// CodeFor returns what an action generates code for, as the manifest spells it, and "host" for host
// code of a CUDA source. The text for compute_80 counts as sm_80 if only that ships.
func (a *Action) CodeFor() (out []string) {
	command := strings.Join(a.Driver().Argv, " ")
	for _, arch := range a.Archs {
		if number, ok := strings.CutPrefix(arch, "compute_"); ok && strings.Contains(command, "code=sm_"+number) {
			arch = "sm_" + number
		}
		out = append(out, arch)
	}
	if out == nil && (a.Kind == Cudafe || a.Kind == HostPart) {
		out = []string{"host"}
	}
	return out
}

// Collect describes a command with dynamic outputs. The outputs of its action are their list and
// their pack (fileset.ListAndPack).
type Collect struct {
	Dir string // the folder of the files, which contains nothing else

	// Relative to Dir: each file matches a pattern, and each pattern matches a file.
	Patterns []string
}
