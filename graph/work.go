package graph

import (
	"path"
	"strings"
	"time"
)

// Work is what an action has by the kind of work that it is. Each type in it writes its own fields
// of the key; a nil one has none.
type Work struct {
	Response *Response         // nil if no program that it runs reads response files
	Keep     *KeepFolder       // of a command that writes to a folder of its own
	Manifest *ManifestTemplate // of the kind Manifest
	Driver   *Driver           // of what a compiler driver does as one command, or would do
	Step     *Step             // of a command of a compiler that does not simply read a source and write an object
	Link     *Link             // of a device link
	Test     *TestRun          // of a test
	Collect  *Collect          // of a command that chooses the names of the files that it writes
}

// Driver is that of a's work, or an empty one.
func (a *Action) Driver() Driver { return valueOf(a.Work.Driver) }

// Step is that of a's work, or an empty one.
func (a *Action) Step() Step { return valueOf(a.Work.Step) }

// Link is that of a's work, or an empty one.
func (a *Action) Link() Link { return valueOf(a.Work.Link) }

// Test is that of a's work, or an empty one.
func (a *Action) Test() TestRun { return valueOf(a.Work.Test) }

func valueOf[T any](p *T) (t T) {
	if p != nil {
		t = *p
	}
	return t
}

// KeyWriter receives the fields of a key in a fixed order.
type KeyWriter interface{ Field(name, value string) }

// Response makes the executor put Argv[From:] into a response file when the command line would grow
// too long, and pass Flag joined with its path instead ("@" for gcc and ar; "--options-file=" for
// nvcc).
type Response struct {
	From int
	Flag string
}

// KeepFolder is a folder of its own that a command writes to; Files in it become the outputs, in
// order.
type KeepFolder struct {
	Dir   string
	Files []string
}

// ManifestTemplate is the document about a module as far as it is known before anything is built.
type ManifestTemplate string

// WriteKey adds the document.
func (m *ManifestTemplate) WriteKey(w KeyWriter) {
	if m != nil {
		w.Field("head", string(*m))
	}
}

// Driver is the command of a compiler driver, as one action or as the one that several are passes
// of.
type Driver struct {
	Argv          []string // the command that this action is a pass of; nil if it is that command
	DryRunKey     string   // the question to the driver that the passes were learned from
	UnsplitReason string   // why the driver runs as one command
	Fallback      bool     // nobody has asked for that

	// Ships is the device code that the output must have: all of it, if it has any or, of a link,
	// if an input has. Compilers and linkers drop code with exit status 0.
	Ships []string
}

// DriverName is the program whose command an action is, or of whose command it is a pass: "nvcc",
// "clang++-19".
func (a *Action) DriverName() string {
	if argv := a.Driver().Argv; len(argv) > 0 {
		return path.Base(argv[0])
	}
	if len(a.Argv) > 0 {
		return path.Base(a.Argv[0])
	}
	return string(a.Kind)
}

// WriteKey adds what the output must have: a kbuild before did not look.
func (d *Driver) WriteKey(w KeyWriter) {
	if d != nil && d.Ships != nil {
		w.Field("ships", strings.Join(d.Ships, " "))
	}
}

// Step is a command of a compiler that does not simply read a source and write an object.
type Step struct {
	// DiagnosticInputs affect messages, never output bytes: they tell line numbers. They are in the
	// key if the command said something. If it did, it is run again with DiagnosticArgv for true
	// line numbers, unless that is nil.
	DiagnosticInputs []string
	DiagnosticArgv   []string

	UnkeyedPaths []string // files that Argv names and does not read: the source, for messages

	// DepfileArgvs write, each into Depfile, the dependency files of passes that Argv runs and
	// whose headers its own does not have.
	DepfileArgvs [][]string

	// TextArgv writes all that Argv reads of the project and of headers as one text, of which Argv
	// would make the same: it is for a compile on another machine. nil if there is no such text.
	TextArgv []string

	CanonicalForms []CanonicalForm // outputs that the executor makes of other outputs
	Macros         []string        // macros that Argv defines whose value is in the key only if the text uses them

	FilesOutput   string // an output that lists the files which a text, Outputs[0], is of: it is kept where the text is not
	WithoutSystem bool   // FilesOutput has no headers of the system
	DepfileOutput string // an output that is a copy of the dependency file

	Staged     []StagedFile // files that the executor puts into a folder of the action's own
	StageInKey bool         // debug information holds the names that the staged files have while the command runs

	Gate          bool // the command writes nothing; where it ends well, Outputs[0] is Inputs[0]
	EmptyCwd      bool // runs in an empty folder, with absolute paths: it must not find the sources
	ResourceUsage bool // -v is in Argv for the registers that ptxas reports alone: what it says of functions is not for the user
}

// WriteKey adds the texts of staged files. Those that are other files are inputs.
func (s *Step) WriteKey(w KeyWriter) {
	if s == nil {
		return
	}
	for _, f := range s.Staged {
		w.Field("staged "+f.Name, f.Text)
	}
	if s.FilesOutput != "" {
		w.Field("files", map[bool]string{false: "all", true: "without system"}[s.WithoutSystem])
	}
}

// StageDir is the folder of Step.Staged in argv and in staged texts: "<stage>/kernels.stub.c".
const StageDir = "<stage>"

// StagedFile is a file of Step.Staged: Text, or the content of the file From, or a link to Link,
// which is part of a tool of the action.
type StagedFile struct {
	Name string
	Text string
	From string
	Link string
}

// CanonicalForm says that the output Canon is the preprocessed text Raw without line numbers and
// blank space. DropFalse leaves out what stands in #if 0.
type CanonicalForm struct {
	Raw       string
	Canon     string
	DropFalse bool
}

// Link is a device link of nvlink. nvlink exits 0 while it drops code, so its words decide (facts:
// "SM Arch not found", "Ignoring -dlto", "not built for LTO").
type Link struct {
	LTO      bool
	Check    bool              // only whether it links is wanted: --check-link
	NonLTO   []string          // files that may be "not built for LTO": rdc objects, prebuilts with lto = "none"
	Untold   []string          // inputs whose LTO-IR does not say how it was compiled, in words
	Foreign  []string          // inputs with LTO-IR of another toolkit, maybe of a newer one, in words
	Owners   map[string]string // input path -> label of the target that brought it, for messages
	OwnerPos map[string]Pos    // input path -> position of that target

	// HostRefs is the output of the action of that kind, for a link that removes what no host code
	// refers to. KeepsAll says why one removes nothing.
	HostRefs string
	KeepsAll string
}

// WriteKey adds the files that the messages do not condemn.
func (l *Link) WriteKey(w KeyWriter) {
	if l != nil {
		w.Field("not LTO", strings.Join(l.NonLTO, "\n"))
	}
}

// TestRun is how the program of a test runs.
type TestRun struct {
	LibDirs []string      // folders in front of LD_LIBRARY_PATH: the content of what it loads from them is in the key, and not where they are
	GPU     bool          // it is told which GPUs the user wants to be used
	Each    bool          // it runs each time
	Timeout time.Duration // 0 is none
}

// WriteKey adds the limit: a test that took longer has not passed.
func (t *TestRun) WriteKey(w KeyWriter) {
	if t != nil && t.Timeout > 0 {
		w.Field("timeout", t.Timeout.String())
	}
}

// Reads are the files that a reads by declaration.
func (a *Action) Reads() []string {
	return append(a.Inputs[:len(a.Inputs):len(a.Inputs)], a.Step().DiagnosticInputs...)
}

// CodeFor is what an action makes code for, in the words of the manifest, and "host" for host code
// of a CUDA source: the text for compute_80 is that of sm_80, if only that ships.
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
