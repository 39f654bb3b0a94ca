package check

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// LinkFailure adds to the error of a failed device link what nvlink does not print: which inputs it
// may not understand.
func LinkFailure(a *graph.Action, printed string, err error) error {
	link := a.Link()
	if len(link.UnknownOptions) > 0 { // nvlink names no file; 11.8 crashes
		err = fmt.Errorf("%w: nvlink compares the floating-point options of LTO-IR, and %s does not "+
			"say with which it was compiled", err, strings.Join(link.UnknownOptions, ", "))
	}
	if len(link.Foreign) > 0 && nvcc.RefusesLTOIR(printed) {
		err = fmt.Errorf("%w: nvlink reads no LTO-IR of a newer CUDA than its own, and %s does not "+
			"say of which it is", err, strings.Join(link.Foreign, ", "))
	}
	return err
}

// DroppedCode returns the error of a device link that ended with status 0 and dropped code.
func DroppedCode(a *graph.Action, faults []nvcc.Fault) error {
	var say []string
	for _, f := range faults {
		file, _, _ := strings.Cut(f.Culprit, ":")
		who := f.Culprit
		if owner := a.Link().Owners[file]; owner != "" {
			who = fmt.Sprintf("%s of %s (%s)", f.Culprit, owner, a.Link().OwnerPos[file])
		}
		switch f.Kind {
		case "partial-lto":
			say = append(say, who+" is not built for LTO, so this would be partial LTO; "+
				`declare lto = "none" on a prebuilt to accept it`)
		case "no-arch":
			say = append(say, who+" holds no code for "+f.Arch+"; the program would lack it")
		case "no-lto":
			say = append(say, "nvlink found no LTO-IR and ignored -dlto; the program would hold no code")
		default:
			say = append(say, f.Line)
		}
	}
	slices.Sort(say)
	return errors.New("the device link lost code: " + strings.Join(slices.Compact(say), "; "))
}

var undefinedRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Undefined reference to '([^']+)'`)
})

// Unlinked reports which module does not link for which GPU. If nvlink names the missing
// symbols, it adds what to do.
func Unlinked(a *graph.Action, printed string, err error) error {
	var missing []string
	for _, m := range undefinedRE().FindAllStringSubmatch(printed, -1) {
		missing = append(missing, modules.Readable(m[1]))
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	arch := strings.Join(a.Archs, ", ")
	if missing == nil {
		return fmt.Errorf("%s does not link for %s: %w", a.Target, arch, err)
	}
	return fmt.Errorf("%s does not link for %s: nothing defines %s; add the module that does to its "+
		"deps (%s), or name it in late_bound if the program brings it when it links at run time",
		a.Target, arch, strings.Join(missing, ", "), a.Pos)
}
