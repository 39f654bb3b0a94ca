package remote

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
)

// program is a program of a tool with all files that it needs to run.
type program struct {
	file   string            // the path without links
	loader string            // absolute
	env    []string          // the environment of the query to the loader
	files  map[string]string // by remote path: the program, its libraries, the loader
	// what the libraries that it loads by itself need, by their names; see once
	loads sync.Map
}

// program returns a program with the files that it needs to run.
func (p *request) program(ctx context.Context, file string, env []string) (*program, error) {
	key := file
	for _, e := range env {
		if isLibraryPath(e) {
			key = file + "\x00" + e
		}
	}
	return once(&p.programs, key, func() (*program, error) {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return nil, err
		}
		prog := &program{file: real, env: env}
		if prog.loader, err = loaderOf(real); err != nil {
			return nil, err
		}
		if prog.files, err = p.libraries(ctx, prog.loader, real, env); err != nil {
			return nil, err
		}
		prog.files[p.name(real)] = real
		prog.files[awayLib+"/"+filepath.Base(prog.loader)] = prog.loader
		return prog, nil
	})
}

// once returns the result of the first call of find for a key.
func once[T any](found *sync.Map, key string, find func() (T, error)) (T, error) {
	f, _ := found.LoadOrStore(key, sync.OnceValues(find))
	return f.(func() (T, error))()
}

// loaderOf returns the loader that a program names. A script or a statically linked program has
// none, and is an error: it may read more than its inputs.
func loaderOf(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if paths, _ := f.DynString(elf.DT_RPATH); slices.ContainsFunc(paths, filepath.IsAbs) {
		return "", fmt.Errorf("%s looks for libraries in %s first", file, paths)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			return strings.TrimRight(string(name), "\x00"), err
		}
	}
	return "", fmt.Errorf("%s has no loader", file)
}

// libraries returns the shared libraries that the local loader finds for a program or a library, by
// their remote paths. It does not start the program.
func (p *request) libraries(
	ctx context.Context, loader, file string, env []string,
) (map[string]string, error) {
	list := []string{loader, "--list", file}
	res, err := run.Run(ctx, run.Command{Argv: list, Dir: p.Root, Env: env})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%s: %s", strings.Join(list, " "), res.Output)
	}
	if err != nil {
		return nil, err
	}
	libs := map[string]string{}
	for line := range strings.Lines(string(res.Output)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue // the loader itself, and what the kernel maps
		}
		lib, _, ok := strings.Cut(rest, " (0x")
		if !ok || !filepath.IsAbs(lib) {
			return nil, fmt.Errorf("%s needs %s, which is not found", file, name)
		}
		libs[awayLib+"/"+filepath.Base(name)] = lib
	}
	return libs, nil
}
