package discover

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
)

// A driver finds the programs that it runs, the start files and the folders of libraries by -B,
// COMPILER_PATH, LIBRARY_PATH and its installation. It passes folders to the linker only if they
// exist.

// driverFolders returns the paths that must stay absent for the driver to find the same files. They
// are folders that it would pass to the linker, start files, and with -B programs.
func (d *drivers) driverFolders(ctx context.Context, a *graph.Action, rec *cache.Record) (missing []string) {
	f, ok := d.folders(ctx, a, a.Argv)
	if !ok {
		rec.Discovered = append(rec.Discovered, Never("the compiler does not say where it looks for libraries"))
		return nil
	}
	var starts []string
	for _, found := range rec.Discovered {
		if base := path.Base(found.Path); path.Ext(base) == ".o" && strings.Contains(base, "crt") && !slices.Contains(starts, base) {
			starts = append(starts, base)
		}
	}
	missing = append(d.tree.missing(f.Libraries), d.tree.firstAbsent(f.Libraries, starts)...)
	if host.Redirects(a.Argv) {
		missing = append(missing, d.tree.programs(f, rec, "collect2", "collect-ld", "real-ld", "ld", f.Machine+"-ld", "lto-wrapper", "lto1", "liblto_plugin.so")...)
	}
	return missing
}

// compilePrograms records the programs of a compile whose options select where to look for them.
func (d *drivers) compilePrograms(ctx context.Context, a *graph.Action, rec *cache.Record) {
	argvs, err := [][]string{a.Argv}, error(nil)
	if isNVCC(a) {
		if !host.RedirectsCompile(slices.Concat(a.Argv, d.keyEnv)) {
			return
		}
		argvs, err = d.hostCompilers(ctx, a)
	}
	for _, argv := range argvs {
		if !host.RedirectsCompile(argv) {
			continue
		}
		f, ok := d.folders(ctx, a, argv)
		if !ok {
			err = errors.New("no answer")
			break
		}
		rec.Absent = append(rec.Absent, d.tree.programs(f, rec, "cc1plus", "cc1", "as", f.Machine+"-as")...)
		for _, dir := range f.Programs { // existing ones are already among the header folders
			if d.tree.Listing.Exists(dir) {
				rec.Absent = append(rec.Absent, d.tree.missing([]string{path.Join(dir, "include"), path.Join(dir, "include-fixed")})...)
			}
		}
	}
	if err != nil {
		rec.Discovered = append(rec.Discovered, Never("the compiler does not say where it looks for programs"))
	}
}

// linkerCommand returns the command of the linker that a's driver runs: it has the libraries and
// library folders that the driver adds. If the driver does not print it, the driver's own command
// is returned.
func (d *drivers) linkerCommand(ctx context.Context, a *graph.Action) []string {
	if !d.known(a) {
		return a.Argv
	}
	printed, _ := d.tree.Query(ctx, a, append(slices.Clone(a.Argv), "-###"), false)
	for line := range strings.Lines(printed) {
		words, err := toolchain.ShellWords(strings.TrimSpace(line), nil)
		if err == nil && len(words) > 1 && strings.Contains(words[0], "/") && slices.Contains(linkers, path.Base(words[0])) {
			return words
		}
	}
	return a.Argv
}

var linkers = []string{"collect2", "ld", "lld", "ld.lld", "ld.gold", "ld.bfd", "ld.mold", "mold"}
