package execute

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph"
)

var undefinedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Undefined reference to '([^']+)'`) })

// checkLinkError says which module does not link for which GPU, and what to do where nvlink tells what is missing.
func checkLinkError(a *graph.Action, said string, err error) error {
	var missing []string
	for _, m := range undefinedRE().FindAllStringSubmatch(said, -1) {
		name := m[1]
		if d := modules.Demangled(name); d != name {
			name = fmt.Sprintf("%s (%s)", d, name)
		}
		missing = append(missing, name)
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	arch := strings.Join(a.Archs, ", ")
	if missing == nil {
		return fmt.Errorf("%s does not link for %s: %w", a.Target, arch, err)
	}
	return fmt.Errorf("%s does not link for %s: nothing defines %s; add the module that does to its deps (%s)", a.Target, arch, strings.Join(missing, ", "), a.Pos)
}

// references writes PTX that refers to the functions that a piece of LTO-IR defines.
func (r *Runner) references(a *graph.Action, name string) error {
	text, err := regular.Read(r.abs(a.Inputs[0]))
	if err != nil {
		return err
	}
	out, err := modules.References(text)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Inputs[0], err)
	}
	return os.WriteFile(name, out, 0o666)
}
