package nvcc

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// Arithmetic returns the option that makes an LTO link of CUDA 13 compute as cicc did. Its nvlink
// reads the options that the code records, but ignores three of them (13.0 to 13.5; 11.8 and 12.4
// do not).
func Arithmetic(f toolchain.Floats) string {
	digit := map[bool]int{true: 1}
	return fmt.Sprintf("-Xnvvm=-ftz=%d,-prec-div=%d,-fma=%d", digit[f.FTZ], digit[f.PrecDiv], digit[f.FMAD])
}

// Fault is a message of nvlink that means that the linked program lacks code, whatever the exit
// status.
type Fault struct {
	Kind    string // "partial-lto", "no-arch", "no-lto", "error"
	Culprit string // "libspectra.a:legacy.o" or "a.o"; "" if the message names none
	Arch    string // "sm_80" for no-arch
	Line    string // the message as printed
}

var (
	partialRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`requested LTO but '([^']+)' not built for LTO`) })
	noArchRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`SM Arch \('([^']+)'\) not found in '([^']+)'`) })
	ignoreRE  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Ignoring -dlto option`) })
	errorRE   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^nvlink (error|fatal)\s*:`) })
)

// RefusesLTOIR reports whether nvlink could not read some LTO-IR, most likely that of a newer
// toolkit. The message does not name the file (11.8 to 13.5).
func RefusesLTOIR(output string) bool { return strings.Contains(output, "elfLink nvvm error") }

// ReadNVLink parses the output of a device link. nonLTO lists the inputs that are known not to be
// LTO-IR, as "file" or "file:member". A "not built for LTO" line about one of them is expected and
// removed from text. text keeps everything else; faults must fail the build.
func ReadNVLink(output string, nonLTO []string) (text string, faults []Fault) {
	expected := map[string]bool{}
	for _, f := range nonLTO {
		expected[f] = true
	}
	var keep []string
	for _, line := range strings.SplitAfter(output, "\n") {
		msg := strings.TrimRight(line, "\r\n")
		partial, m := partialRE().FindStringSubmatch(msg), noArchRE().FindStringSubmatch(msg)
		switch {
		case partial != nil && isExpected(expected, partial[1]):
			continue
		case partial != nil:
			faults = append(faults, Fault{Kind: "partial-lto", Culprit: partial[1], Line: msg})
		case m != nil:
			faults = append(faults, Fault{Kind: "no-arch", Arch: m[1], Culprit: m[2], Line: msg})
		case ignoreRE().MatchString(msg):
			faults = append(faults, Fault{Kind: "no-lto", Line: msg})
		case errorRE().MatchString(msg):
			faults = append(faults, Fault{Kind: "error", Line: msg})
		}
		keep = append(keep, line)
	}
	return strings.Join(keep, ""), faults
}

// isExpected reports whether culprit, its archive, or the toolkit's own libcudadevrt.a is expected.
// The last is always machine code.
func isExpected(expected map[string]bool, culprit string) bool {
	file, _, _ := strings.Cut(culprit, ":")
	return expected[culprit] || expected[file] || strings.HasSuffix(file, "libcudadevrt.a") || file == "libcudadevrt"
}
