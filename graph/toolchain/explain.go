package toolchain

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph"
)

// A compiler knows what is wrong, and not what to do about it in terms of the manifest. Toolchains
// have tables of the messages of their programs that have one likely cause. Some say it all; for
// others the caller looks into the files of the build.

// Fault describes a fault that a message reports.
type Fault struct {
	Kind  FaultKind
	Names []string // symbols, a header or a library, as printed
	Files []string // of symbols: that use the one, or that define it

	// What to do, for the kind Advised. {names} stands for Names, and {are} for "is" or "are".
	Advice string
}

// FaultKind is the kind of a Fault.
type FaultKind int

const (
	Advised   FaultKind = iota // the message alone says what to do
	Undefined                  // nothing defines a symbol
	Twice                      // two files define a symbol
	NoHeader
	NoLibrary
)

// Message is a message of a program and the fault that it reports. The groups of the expression are
// the name and the files. In Advice {1} stands for the first group, {target} for the label of the
// action's target, {at} for
// the label with its position, and {source} for the name of the action.
type Message struct {
	Pattern string
	Kind    FaultKind
	Advice  string
}

// OtherFile advises about symbols that a program without a device link does not find.
const OtherFile = `{names} {are} of another file, and mode = "whole" compiles each source by itself: set mode = "rdc" or "lto" on {at}`

// Explain returns the faults in the output of an action. Those with the same advice are one.
func Explain(messages []Message, a *graph.Action, output string) (faults []Fault) {
	for _, m := range messages {
		for _, found := range regexp.MustCompile(`(?m)`+m.Pattern).FindAllStringSubmatch(output, 1000) {
			f := Fault{Kind: m.Kind}
			if len(found) > 1 {
				f.Names = found[1:2]
			}
			if m.Kind != Advised {
				f.Files = slices.DeleteFunc(found[min(2, len(found)):], func(file string) bool { return file == "" })
				faults = append(faults, f)
				continue
			}
			at := a.Target
			if pos := a.Pos.String(); pos != "" {
				at += " (" + pos + ")"
			}
			f.Advice = strings.NewReplacer("{target}", a.Target, "{at}", at, "{source}", a.Name).Replace(m.Advice)
			for i, text := range found {
				f.Advice = strings.ReplaceAll(f.Advice, "{"+string(rune('0'+i))+"}", text)
			}
			same := func(o Fault) bool { return o.Kind == Advised && o.Advice == f.Advice }
			if i := slices.IndexFunc(faults, same); i < 0 {
				faults = append(faults, f)
			} else if len(f.Names) > 0 && !slices.Contains(faults[i].Names, f.Names[0]) {
				faults[i].Names = append(slices.Clip(faults[i].Names), f.Names[0])
			}
		}
	}
	return faults
}

// hostMessages are those of gcc, clang and ld.
var hostMessages = []Message{
	{Pattern: "undefined reference to [`']([^']+)'", Kind: Undefined},
	{Pattern: "multiple definition of [`']([^']+)'", Kind: Twice},
	{Pattern: `(?:fatal )?error: '?([^\s':]+)'?:? (?:No such file or directory|file not found)`, Kind: NoHeader},
	{Pattern: `cannot find -l(\S+?)(?::|$|\s)`, Kind: NoLibrary},
}

// ExplainHost is Explain for the messages of host compilers and their linkers.
func ExplainHost(a *graph.Action, output string) []Fault {
	faults := Explain(hostMessages, a, output)
	if a.Kind == graph.HostCompile {
		faults = append(faults, Explain([]Message{{Pattern: `<<<`, Advice: "<<<...>>> starts a kernel, which only CUDA sources may: " +
			`rename {source} to end in .cu, or give {target} language = "cuda"`}}, a, output)...)
	}
	return faults
}

// positioned matches messages with a position in the source, and those of linkers about their
// inputs. cicc 11.8 prints "a.cu(1): Error: Formal parameter space overflowed", with a capital.
const positioned = `\(\d+\): (?:catastrophic )?[Ee]rror|:\d+:(?:\d+:)? (?:fatal )?error|, line \d+; (?:error|fatal)|Undefined reference to|Multiple definition of|multiply defined|undefined (?:hidden )?symbol|duplicate symbol|IR version \S+ incompatible with current version`

// unplaced lists errors of ptxas and nvlink about their input that have no position in it. It has
// the strings of both programs, 11.8 and 13.5, without those about options and files, which kbuild
// may have passed wrongly. The last ones are warnings under -Werror.
var unplaced = []string{
	`Entry function '.*' uses too much `,
	`File uses too much global `,
	`Unresolved extern `,
	`Register allocation failed`,
	`Minimum parameter register \d+ and number of parameter registers`,
	`With specified parameters, return address is `,
	`Constant register limit exceeded`,
	`Code Size Limit `,
	`Indirect branch table is too large`,
	`More than \d+ .* used in entry function`,
	`Optimized debugging not supported`,
	`entry function '.*' with max regcount of \d+ calls function`,
	`Function '.*' (?:is recursive|not declared __global__|uses \d+ bytes stack)`,
	`(?:Size|Prototype|Managed attribute|Memory space) doesn't match for `,
	`Duplicate weak parameter bank for `,
	`Object '.*' has cuda-api-version of `,
	`Cicc option values for '.*' do not match`,
	`Input file '.*' newer than toolkit`,
	`Value of .* for entry .* is out of range`,
	`Registers are spilled to local memory`,
	`Local memory used for function`,
	`Stack size for entry function '.*' cannot be statically determined`,
}

var blames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(positioned + `|(?:ptxas|nvlink) (?:error|fatal)\s*: (?:` + strings.Join(unplaced, "|") + `)`)
})

// BlamesSource reports whether a failed pass blames the source, or the linked inputs. The unsplit
// command then fails in the same way. PTX without a beginning does not blame the source: it was not
// written, or another file was read as PTX.
func BlamesSource(output []byte) bool {
	for line := range bytes.Lines(output) {
		if blames().Match(line) && !bytes.Contains(line, []byte("Missing .version directive")) {
			return true
		}
	}
	return false
}
