package discover

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
)

// named holds the files that an argument names, and those that it would name if they existed.
type named struct{ found, missed []string }

// argument finds the files in an argument such as "-Wl,--version-script=api.map" or "@options".
// Arguments repeat from action to action, so the answer is cached.
func (d *Discovery) argument(arg string) named {
	if n, ok := d.named.Load(arg); ok {
		return n
	}
	var n named
	for _, part := range strings.FieldsFunc(arg, func(c rune) bool { return c == '=' || c == ',' || c == '@' }) {
		if strings.HasPrefix(part, "-") {
			continue
		}
		info, err := os.Stat(d.abs(part))
		switch {
		case err == nil && info.Mode().IsRegular():
			n.found = append(n.found, part)
		case err != nil || info.IsDir(): // a folder may become a file
			n.missed = append(n.missed, part)
		}
	}
	d.named.LoadOrStore(arg, n)
	return n
}

// Named returns the files that a's arguments name besides its inputs. They are an options file, a
// linker script, a forced-in header, or the script of a generate block. No compiler lists all of
// these as dependencies.
func (d *Discovery) Named(a *graph.Action) (out []string) {
	if !hasArguments(a) {
		return nil
	}
	known := map[string]bool{a.Depfile: true}
	for _, f := range slices.Concat(a.Reads(), a.Outputs, a.Pass().UnkeyedPaths) {
		known[f] = true
	}
	for i, arg := range a.Argv[1:] {
		if known[arg] || namesNoFile(a.Argv[i]) {
			continue
		}
		for _, f := range d.argument(arg).found {
			if !d.IsOutput(f) && !known[f] && !known[path.Clean(f)] {
				known[f] = true
				out = append(out, f)
			}
		}
	}
	return out
}

// profile returns the option by which a compile is guided by a profile with a name that the
// compiler derives, or "". No dependency file names that profile. gcc looks for a .gcda beside the
// object, or in the folder of -fprofile-use= or -fprofile-dir= under the object's whole path; clang
// looks for default.profdata. A file that an option names is found like any other.
func (d *Discovery) profile(a *graph.Action) string {
	if len(a.Tools) == 0 || len(a.Argv) == 0 {
		return ""
	}
	clang := strings.Contains(path.Base(a.Argv[0]), "clang")
	for _, arg := range slices.Concat(a.Argv, d.KeyEnv) {
		for _, option := range guided {
			_, value, found := strings.Cut(arg, option)
			file, named := strings.CutPrefix(value, "=")
			named = named && (clang || option == "-fauto-profile") && d.isFile(file)
			if found && !named {
				return arg
			}
		}
	}
	return ""
}

// guided lists the options by which a compile reads a profile.
var guided = []string{
	"-fprofile-use", "-fprofile-instr-use", "-fbranch-probabilities", "-fauto-profile",
}

// hasArguments reports whether the arguments of a command may name files: those of a tool or of the
// user.
func hasArguments(a *graph.Action) bool {
	return len(a.Argv) > 0 && (len(a.Tools) > 0 || a.Kind.Info().Project)
}

// namesNoFile reports an option whose value is not a file that is read. The value is a target, or a
// tool of nvcc, which enters the key by its fingerprint.
func namesNoFile(option string) bool {
	return isTarget(option) || option == "-ccbin" || option == "--compiler-bindir" || option == "--host-ccbin"
}

// isTarget reports an option whose value is the target in the dependency file.
func isTarget(option string) bool { return option == "-MT" || option == "-MQ" }

// watchArguments returns absent paths and folders. If one of them appears or changes, an argument
// may name a file, or PATH may lead to another program.
func (d *Discovery) watchArguments(a *graph.Action) (out []string) {
	if !hasArguments(a) {
		return nil
	}
	own := map[string]bool{a.Depfile: true}
	for _, f := range slices.Concat(a.Inputs, a.Outputs) {
		own[f] = true
	}
	for i, arg := range a.Argv[1:] {
		if own[arg] || isTarget(a.Argv[i]) {
			continue // each is unique to an action: checking them all costs time and cache memory
		}
		for _, p := range d.argument(arg).missed {
			if !d.IsOutput(p) && !own[p] {
				out = append(out, p)
			}
		}
	}
	if a.Kind.Info().Generates {
		out = append(out, d.onPath(a.Argv[0])...)
	}
	return out
}

// onPath returns the paths where the program of a command may be found.
func (d *Discovery) onPath(name string) (out []string) {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	for _, e := range d.Env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for _, dir := range filepath.SplitList(list) {
				out = append(out, filepath.Join(dir, name))
			}
		}
	}
	return out
}
