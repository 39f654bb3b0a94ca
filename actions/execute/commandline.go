package execute

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// maxArgs is the length from which arguments move to a response file. Linux allows 2 MiB for
// arguments and environment.
const maxArgs = 128 << 10

// commandLine returns argv with temporary names for the files that a writes.
func commandLine(root string, a *graph.Action, argv []string, dir scratch) ([]string, error) {
	argv = slices.Clone(argv)
	switch {
	case a.Intermediate || a.Driver().Argv != nil || a.Kind == graph.Bundle:
		names := passNames(root, a, dir)
		for i, arg := range argv {
			argv[i] = names.Replace(arg)
		}
		if a.Step().EmptyCwd && a.Kind == graph.NVLink {
			argv = toolchain.MapLibraryFolders(argv, func(dir string) string { return cache.Absolute(root, dir) })
		}
	default:
		names, err := tempNames(a, dir)
		if err != nil {
			return nil, err
		}
		for i, arg := range argv {
			if t, ok := names[arg]; ok {
				argv[i] = t
			} else if k := a.Work.Keep; k != nil {
				if rest, ok := strings.CutPrefix(arg, k.Dir+"/"); ok {
					argv[i] = names[k.Dir] + "/" + rest
				}
			}
		}
	}
	return argv, nil
}

// respond moves arguments to a response file if they are too long.
func respond(a *graph.Action, argv []string, dir scratch) ([]string, error) {
	size := 0
	for _, arg := range argv {
		size += len(arg) + 1
	}
	rsp := a.Work.Response
	if rsp == nil || size < maxArgs {
		return argv, nil
	}
	file := dir.file("args.rsp")
	if err := os.WriteFile(file, responseFile(argv[rsp.From:]), 0o666); err != nil {
		return nil, fmt.Errorf("writing a response file: %w", err)
	}
	name := dir.seen().file("args.rsp")
	if rsp.Flag == nvcc.OptionsFile.Flag {
		name = toolchain.ListWord(name)
	}
	return append(argv[:rsp.From:rsp.From], rsp.Flag+name), nil
}

// tempNames returns the temporary names of the files that a's command writes, by the names in its
// argv. An in-place command writes the outputs themselves.
func tempNames(a *graph.Action, dir scratch) (map[string]string, error) {
	rel := dir.seen()
	names := map[string]string{}
	for i, o := range a.Outputs {
		if !a.InPlace {
			names[o] = rel.output(i, o)
		}
	}
	if a.Depfile != "" && a.Kind != graph.Generate {
		names[a.Depfile] = rel.depfile()
		for _, given := range []string{"", "-Wl,"} { // see host.ForLinker
			given += host.DependencyFile
			names[given+a.Depfile] = given + rel.depfile()
		}
	}
	if k := a.Work.Keep; k != nil {
		names[k.Dir] = rel.file("keep")
		if err := os.MkdirAll(dir.file("keep"), 0o777); err != nil {
			return nil, fmt.Errorf("making a temporary folder: %w", err)
		}
	}
	return names, nil
}

// passNames returns a replacer for the names of files in the command of a pass, also inside
// arguments.
func passNames(root string, a *graph.Action, dir scratch) *strings.Replacer {
	rel := dir.seen()
	if a.Step().EmptyCwd {
		rel = dir
	}
	pairs := [][2]string{{graph.StageDir, rel.file("in")}}
	for i, o := range a.Outputs {
		pairs = append(pairs, [2]string{o, rel.output(i, o)})
	}
	if a.Depfile != "" {
		pairs = append(pairs, [2]string{a.Depfile, rel.depfile()})
	}
	if a.Step().EmptyCwd {
		for _, in := range a.Reads() {
			pairs = append(pairs, [2]string{in, cache.Absolute(root, in)})
		}
	}
	return replacer(pairs)
}

// responseFile quotes arguments as gcc, ar and ld read them: one per line, a backslash before
// blanks, quotes and backslashes.
func responseFile(args []string) []byte {
	var b strings.Builder
	for _, arg := range args {
		for _, c := range arg {
			if strings.ContainsRune(" \t\n\\\"'", c) {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// stage writes the files that a command expects in its own folder.
func stage(root string, a *graph.Action, dir scratch) error {
	in := dir.file("in")
	for _, s := range a.Step().Staged {
		name := filepath.Join(in, s.Name)
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		switch {
		case err != nil:
		case s.Link != "":
			err = os.Symlink(s.Link, name)
		case s.From != "":
			err = os.Link(cache.Absolute(root, s.From), name)
		default:
			err = os.WriteFile(name, []byte(strings.ReplaceAll(s.Text, graph.StageDir, staged(a, dir))), 0o666)
		}
		if err != nil {
			return fmt.Errorf("preparing %s: %w", a.Name, err)
		}
	}
	return nil
}

// staged returns the folder of staged files, escaped for a string literal.
func staged(a *graph.Action, dir scratch) string {
	if !a.Step().EmptyCwd {
		dir = dir.seen()
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(dir.file("in"))
}
