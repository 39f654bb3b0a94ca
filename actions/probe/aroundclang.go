package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// clang has no folders of its own for libstdc++, start files and linkers. In each compile it looks
// for the newest gcc in the places of the distributions, and for its own libraries beside itself.
// It probes some fifty absent paths, which differ between versions. All of them are in a few
// folders that change only when a compiler is installed. Those folders are watched.

// aroundClang watches the folders in which a clang looks for gcc, for its own libraries, and for
// linkers.
func (w *hostEnv) aroundClang(clang string) {
	bin := realDir(clang)
	for _, dir := range []string{bin, filepath.Dir(bin), filepath.Join(bin, "../lib"), "/opt/rh", "/etc/env.d/gcc"} {
		w.watch(dir)
	}
	if dir, err := w.answer(clang, "-print-resource-dir"); err == nil && filepath.IsAbs(dir) {
		for _, sub := range []string{"", "bin", "lib", "lib/linux"} {
			w.watch(filepath.Join(dir, sub))
		}
	}
	for _, lib := range []string{"lib", "lib32", "lib64", "libx32"} {
		w.watch(filepath.Join("/usr", lib, "gcc-cross"))
		w.watch(filepath.Join("/usr", lib, "gcc"))
		versions, _ := filepath.Glob(filepath.Join("/usr", lib, "gcc/*/*"))
		for _, v := range versions {
			w.watch(filepath.Dir(v))
			w.watch(v)
			w.watch(filepath.Join(v, "include"))
		}
	}
	triple, err := w.answer(clang, "-dumpmachine")
	if err != nil {
		return
	}
	for _, program := range []string{triple + "-as", triple + "-ld", triple + "-ld.lld", triple + "-lld", "as", "ld", "ld.lld"} {
		w.lookup(program, w.env("PATH")) // PATH follows clang's own folders
	}
	w.watch("/etc/clang")
	if home := w.env("HOME"); filepath.IsAbs(home) {
		config := filepath.Join(home, ".config")
		w.watch(filepath.Join(config, "clang"))
		// ~/.config itself is not watched: other programs write in it every day.
		for _, name := range []string{triple, "clang", "clang++", triple + "-clang", triple + "-clang++"} {
			w.there(filepath.Join(config, name+".cfg"))
		}
	}
}

// gccOf returns the version of the gcc whose headers, libraries and start files a clang uses, and a
// file whose content identifies that gcc.
func (w *hostEnv) gccOf(clang string) (version, file string) {
	printed, _ := w.output(clang, "-v", "-E", "-x", "c++", os.DevNull, "-o", os.DevNull)
	m := selectedGCC().FindStringSubmatch(printed)
	if m == nil {
		return "", ""
	}
	return filepath.Base(m[1]), w.ask(clang, "-print-file-name=crtbegin.o", "")
}

var selectedGCC = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^Selected GCC installation: (.+)$`) })

var configurationRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^Configuration file: (.+)$`) })

// configuration adds the configuration files of a clang to its parts. clang names those that it
// reads by default in its version text; they may name further ones.
func (w *hostEnv) configuration(version string, parts map[string]string) {
	var todo []string
	for _, m := range configurationRE().FindAllStringSubmatch(version, -1) {
		todo = append(todo, m[1])
	}
	seen := map[string]bool{}
	for ; len(todo) > 0; todo = todo[1:] {
		file := todo[0]
		if seen[file] || !w.there(file) {
			continue
		}
		seen[file] = true
		// Roles have numbers, since two users have the same files at different paths.
		parts[fmt.Sprintf("configuration %d", len(seen))] = file
		text, err := regular.Read(file)
		w.note(err)
		for _, word := range strings.Fields(string(text)) {
			word = strings.ReplaceAll(word, "<CFGDIR>", filepath.Dir(file))
			for _, prefix := range []string{"@", "--config="} {
				if name, ok := strings.CutPrefix(word, prefix); ok {
					todo = append(todo, inside(filepath.Dir(file), name))
				}
			}
		}
	}
}
