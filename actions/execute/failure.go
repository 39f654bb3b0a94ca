package execute

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// ended is the error of a command that a signal ended, or that got no memory. It says nothing about
// the command's input.
type ended struct {
	text  string
	short bool // memory was short
}

func (e *ended) Error() string { return e.text }

// exitError returns nil for a process that succeeded.
func exitError(out run.Result) error {
	const advice = `: build with a smaller -j or --mem, or give the target memory = "..."`
	grown := ""
	if out.MaxRSS > 0 {
		grown = fmt.Sprintf(" (it had grown to %d MiB)", out.MaxRSS>>20)
	}
	switch {
	case out.OOM:
		return &ended{"killed, most likely for memory" + grown + advice, true}
	case out.NoMemory:
		return &ended{"it got no memory" + grown + advice, true}
	case out.Signal != 0:
		return &ended{fmt.Sprintf("ended by signal %v", out.Signal), false}
	case out.Killed:
		return &ended{fmt.Sprintf("exit status %d: something that it ran was ended by a signal", out.ExitCode), false}
	case out.ExitCode == 127:
		return errors.New("exit status 127: a tool it runs was not found, or was given a command line longer than Linux allows")
	case out.ExitCode != 0:
		return fmt.Errorf("exit status %d", out.ExitCode)
	}
	return nil
}

// inCircumstances adds to the error of a's process what the process may not know.
func inCircumstances(a *graph.Action, printed string, err error, state string) error {
	if diskFull(state) {
		err = fmt.Errorf("%w: the disk of the build tree is full, or almost", err)
	}
	if a.Work.Link != nil && len(a.Link().Untold) > 0 { // nvlink names no file; 11.8 crashes
		err = fmt.Errorf("%w: nvlink compares the floating-point options of LTO-IR, and %s does not say with which it was compiled", err, strings.Join(a.Link().Untold, ", "))
	}
	if a.Work.Link != nil && len(a.Link().Foreign) > 0 && nvcc.RefusesLTOIR(printed) {
		err = fmt.Errorf("%w: nvlink reads no LTO-IR of a newer CUDA than its own, and %s does not say of which it is", err, strings.Join(a.Link().Foreign, ", "))
	}
	return err
}

// explainFailure adds what kbuild knows and the compiler does not: a generate block builds the
// missing header, and the target does not depend on it.
func (t *buildTree) explainFailure(a *graph.Action, printed string, err error) error {
	for _, line := range strings.Split(printed, "\n") {
		before, _, ok := strings.Cut(line, ": No such file or directory")
		if !ok {
			continue
		}
		name := before[strings.LastIndex(before, ": ")+1:]
		name = strings.TrimSpace(name)
		if g := t.generator(a, name); g != nil {
			return fmt.Errorf("%w: %s is made by %s (%s): add it to the deps of %s", err, name, g.Target, g.Pos, a.Target)
		}
	}
	return err
}

// linkError returns the error of a device link that ended with status 0 and dropped code.
func linkError(a *graph.Action, faults []nvcc.Fault) error {
	var say []string
	for _, f := range faults {
		file, _, _ := strings.Cut(f.Culprit, ":")
		who := f.Culprit
		if owner := a.Link().Owners[file]; owner != "" {
			who = fmt.Sprintf("%s of %s (%s)", f.Culprit, owner, a.Link().OwnerPos[file])
		}
		switch f.Kind {
		case "partial-lto":
			say = append(say, fmt.Sprintf("%s is not built for LTO, so this would be partial LTO; declare lto = \"none\" on a prebuilt to accept it", who))
		case "no-arch":
			say = append(say, fmt.Sprintf("%s holds no code for %s; the program would lack it", who, f.Arch))
		case "no-lto":
			say = append(say, "nvlink found no LTO-IR and ignored -dlto; the program would hold no code")
		default:
			say = append(say, f.Line)
		}
	}
	slices.Sort(say)
	return errors.New("the device link lost code: " + strings.Join(slices.Compact(say), "; "))
}

var undefinedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Undefined reference to '([^']+)'`) })

// checkLinkError reports which module does not link for which GPU. If nvlink names the missing
// symbols, it adds what to do.
func checkLinkError(a *graph.Action, printed string, err error) error {
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
	return fmt.Errorf("%s does not link for %s: nothing defines %s; add the module that does to its deps (%s), or name it in late_bound if the program brings it when it links at run time",
		a.Target, arch, strings.Join(missing, ", "), a.Pos)
}

// diskFull reports whether the disk of the build tree is full. Compilers report that in many ways,
// some of them misleading.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	// the files of the failing command are gone by now
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < 16<<20
}
