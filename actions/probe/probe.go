// Package probe observes the host environment and returns the Facts that the planner needs:
// toolkits, host compilers, GPUs, the content of prebuilt files. It plans nothing.
//
// A tool's fingerprint covers the content of everything that the tool runs or reads on its own
// account. The names of those files and their installation dates do not matter; a ptxas replaced
// under the same nvcc does.
package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// Request lists what to find out.
type Request struct {
	Root           string                    // project root; relative paths of Prebuilt start here
	Compiler       string                    // nvcc or a clang, by name or path; "" is nvcc
	HostCompiler   string                    // "" selects one that the toolkit supports
	Missing        string                    // error if Compiler is not found; "" is a default
	MissingOf      string                    // the attribute of the toolchain block that names it
	Version        string                    // constraint ">= 11.2, < 13", for messages
	Accepts        func(version string) bool // whether it allows a version; nil allows any
	NeedCUDA       bool
	HIPCompiler    string // hipcc or a clang, by name or path; "" is hipcc
	HIPVersion     string // the manifest's constraint on clang's version
	HIPAccepts     func(version string) bool
	NeedAMD        bool
	NeedHIPHeaders bool // some target is HIP for NVIDIA's GPUs
	NeedNative     bool // look for GPUs
	NativeCPU      bool // something is compiled for the processor of this machine
	Prebuilt       []string
	Libs           []Lib
	Env            func(string) string
	MemoPath       string // folder that remembers answers between runs; "" is none
}

// Lib is a library named by -l, to be searched for as a linker does.
type Lib struct {
	Name string
	Dirs []string
}

// Collect gathers the facts. Faults of tools are part of the facts (CUDAError, Tool.Error), since
// only the planner knows whether the tool is needed. The error reports a host environment where
// nothing can be probed, such as a TempError.
//
// observed holds what the facts depend on. It is nil if that is not known, or if the next run must
// probe again. GPUs are not files, see GPUs.
func Collect(ctx context.Context, r Request) (facts plan.Facts, observed []cache.Observation, err error) {
	facts, observed, ok := r.remembered()
	if !ok {
		if err := checkTemp(); err != nil {
			return plan.Facts{}, nil, err
		}
		w := newHostEnv(ctx, r)
		facts = w.collect()
		observed = w.remember(facts)
	}
	facts.NVCCFlags = slices.Concat(strings.Fields(r.Env("NVCC_PREPEND_FLAGS")), strings.Fields(r.Env("NVCC_APPEND_FLAGS")))
	facts.Prebuilt = map[string]toolchain.Library{}
	facts.Behind = map[string]plan.Behind{}
	for _, f := range r.Prebuilt {
		facts.Prebuilt[f] = inspect(r.Root, f)
		facts.Behind[f] = behind(ctx, r, f, facts.CUDA)
		if !r.NeedAMD && holdsAMD(facts.Prebuilt[f]) {
			r.NeedAMD = true // a program of host sources that links the file needs HIP's runtime
			return Collect(ctx, r)
		}
	}
	facts.Static, facts.Libs, facts.Unseen = map[string]string{}, map[string][]string{}, map[string]string{}
	for _, l := range r.Libs {
		file, unseen := r.findLib(l, facts.CUDA)
		if unseen != "" {
			facts.Unseen[l.Name] = unseen
		}
		if file != "" && !slices.Contains(facts.Libs[l.Name], file) {
			facts.Libs[l.Name] = append(facts.Libs[l.Name], file)
		}
	}
	for _, l := range r.searched() {
		r.addStatic(&facts, l.Name, l.Name, r.otherLibDirs(facts.CUDA))
		for _, d := range l.Dirs {
			if file := libIn(r.Root, d, l.Name); file != "" && !slices.Contains(facts.Libs[l.Name], file) {
				facts.Libs[l.Name] = append(facts.Libs[l.Name], file)
			}
			r.addStatic(&facts, plan.LibIn(d, l.Name), l.Name, []string{d})
		}
	}
	for _, files := range facts.Libs {
		for _, file := range files {
			facts.Behind[file] = behind(ctx, r, file, facts.CUDA)
		}
	}
	if !r.NeedCUDA && (facts.AnyStatic() || facts.AnyNeedsToolkit()) {
		// A program of host sources that links them needs a device link, or the toolkit's
		// libraries.
		r.NeedCUDA = true
		return Collect(ctx, r)
	}
	if r.NeedNative {
		facts.NativeGPU = gpus(ctx, r.Env)
	}
	if r.NativeCPU {
		facts.NativeCPU = nativeCPU(ctx, r, facts)
	}
	if observed != nil {
		observed = r.observeFiles(observed, facts)
	}
	return facts, observed, ctx.Err()
}

// observeFiles appends the prebuilt files, and the paths where libraries were searched. It returns
// nil if a prebuilt file is missing.
func (r Request) observeFiles(observed []cache.Observation, f plan.Facts) []cache.Observation {
	for _, l := range r.searched() {
		for _, d := range r.libDirs(l, f.CUDA) {
			for _, p := range libFiles(inside(r.Root, d), l.Name) {
				kind := cache.KindFile
				if !exists(p) {
					kind = cache.KindAbsent
				}
				observed = append(observed, cache.Observation{Path: p, Kind: kind})
			}
		}
	}
	for _, p := range r.Prebuilt {
		if p = inside(r.Root, p); !exists(p) {
			return nil
		}
		observed = append(observed, cache.Observation{Path: p, Kind: cache.KindFile})
	}
	return observed
}

// inspect reads the content of a prebuilt file.
func inspect(root, name string) toolchain.Library {
	f, err := fatbin.ReadFile(inside(root, name))
	if err != nil {
		if os.IsNotExist(err) {
			return toolchain.Library{Error: "there is no such file"}
		}
		return toolchain.Library{Error: err.Error()}
	}
	lib := toolchain.Library{Form: f.Kind.String()}
	for _, m := range f.Members {
		pm := toolchain.Member{Name: m.Name, Relocatable: m.Relocatable, NewDriver: m.NewDriver, Fatbins: m.Fatbins, Versions: m.Versions}
		for _, i := range m.Images {
			pm.Images = append(pm.Images, i.Image)
			if i.Kind == gencode.LTO && !slices.Contains(pm.Options, i.Options) {
				pm.Options = append(pm.Options, i.Options)
			}
		}
		lib.Members = append(lib.Members, pm)
	}
	return lib
}

func holdsAMD(lib toolchain.Library) bool {
	return slices.ContainsFunc(lib.Members, func(m toolchain.Member) bool {
		return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return strings.HasPrefix(i.Name, "gfx") || i.Name == gencode.SPIRVTarget })
	})
}

// inside returns the absolute path of p, which may be relative to the project.
func inside(root, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(root, p)
}

// libDirs returns the folders where a linker looks for a library.
func (r Request) libDirs(l Lib, k *cuda.Toolkit) []string {
	return append(slices.Clone(l.Dirs), r.otherLibDirs(k)...)
}

// otherLibDirs returns the folders that a link searches after those of the manifest.
func (r Request) otherLibDirs(k *cuda.Toolkit) (dirs []string) {
	if k != nil {
		dirs = slices.Clone(k.LibDirs)
	}
	dirs = append(dirs, filepath.SplitList(r.Env("LIBRARY_PATH"))...)
	return append(dirs, systemFolders[:]...)
}

// systemFolders are the folders that a linker searches last.
var systemFolders = [...]string{"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

// searched returns the libraries, each name once, with all folders that some link searches for it.
func (r Request) searched() (libs []Lib) {
	at, seen := map[string]int{}, map[[2]string]bool{}
	for _, l := range r.Libs {
		i, ok := at[l.Name]
		if !ok {
			i, libs = len(libs), append(libs, Lib{Name: l.Name})
			at[l.Name] = i
		}
		for _, d := range l.Dirs {
			if key := [2]string{l.Name, d}; !seen[key] {
				seen[key], libs[i].Dirs = true, append(libs[i].Dirs, d)
			}
		}
	}
	return libs
}

// libFiles returns the files that -lNAME can mean in a folder: a shared library before an archive,
// or the file that -l:FILE names.
func libFiles(dir, name string) []string {
	if file, ok := strings.CutPrefix(name, ":"); ok {
		return []string{filepath.Join(dir, file)}
	}
	return []string{filepath.Join(dir, "lib"+name+".so"), filepath.Join(dir, "lib"+name+".a")}
}

// libIn returns the file that -lNAME means in a folder, or "" if the folder has none.
func libIn(root, dir, name string) string {
	for _, file := range libFiles(dir, name) {
		if exists(inside(root, file)) {
			return file
		}
	}
	return ""
}

// addStatic records under key the archive that -lNAME means in some folders, and its content, if it
// holds device code of NVIDIA. For any other file it records "". If no file is found it records
// nothing.
func (r Request) addStatic(f *plan.Facts, key, name string, dirs []string) {
	for _, d := range dirs {
		file := libIn(r.Root, d, name)
		if file == "" {
			continue
		}
		f.Static[key] = ""
		if filepath.Ext(file) != ".a" {
			return
		}
		lib, read := f.Prebuilt[file]
		if !read {
			lib = inspect(r.Root, file)
		}
		// For other files ld decides: it reads them or reports an error.
		if lib.Error == "" && len(lib.Members) > 0 && !holdsAMD(lib) {
			f.Static[key], f.Prebuilt[file] = file, lib
		}
		return
	}
}

// findLib returns the file that -lNAME means, or "" for a library of the toolkit or of the
// compiler. unseen states why the linker may use another file.
func (r Request) findLib(l Lib, k *cuda.Toolkit) (file, unseen string) {
	known := ofCompiler().MatchString(l.Name)
	system := systemFolders[:]
	own := append(slices.Clone(l.Dirs), filepath.SplitList(r.Env("LIBRARY_PATH"))...)
	for _, d := range r.libDirs(l, k) {
		file := libIn(r.Root, d, l.Name)
		switch {
		case file == "":
		case slices.Contains(own, d):
			return file, ""
		case known || !slices.Contains(system, d) || k != nil && slices.Contains(k.LibDirs, d) && ofToolkit().MatchString(l.Name):
			return "", ""
		case !isBinary(inside(r.Root, file)):
			return "", file + " is a script of the linker"
		default:
			return file, ""
		}
	}
	if known {
		return "", ""
	}
	return "", "it was not found"
}

// ofCompiler matches libraries of compilers and of libc, which never depend on a project's code.
// Some are linker scripts, and some are in folders that only the compiler knows.
var ofCompiler = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(c|m|mvec|pthread|dl|rt|util|anl|resolv|crypt|gcc|gcc_s|gcc_eh|stdc\+\+|stdc\+\+fs|supc\+\+|c\+\+|c\+\+abi|gomp|omp|iomp5|gfortran|quadmath|atomic|ssp|gcov|[atlu]san|hwasan)$`)
})

// ofToolkit matches libraries of a toolkit that shares its folder with the system: Debian's is in
// /usr/lib/x86_64-linux-gnu.
var ofToolkit = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(cuda|cudart|cudadevrt|cublas|cublasLt|cufft|cufftw|cufile|cufile_rdma|cuinj64|accinj64|culibos|cupti|curand|cusolver|cusolver_lapack|cusolverMg|cusparse|lapack|metis|npp[a-z]+|nvblas|nvjpeg|nvrtc|nvrtc-builtins|nvToolsExt|nvvm|nvptxcompiler|nvperf_host|nvperf_target|nvJitLink|nvfatbin|nvidia-ml|cudnn[a-z_]*|OpenCL)(_static)?$`)
})

// behind finds the libraries that a shared library needs in turn. A program must export the symbols
// that those refer to as well. Libraries of the system, of the toolkit and of the compiler refer to
// no symbols of a program.
func behind(ctx context.Context, r Request, file string, k *cuda.Toolkit) (out plan.Behind) {
	if info, err := os.Stat(inside(r.Root, file)); err != nil || !info.Mode().IsRegular() {
		return out // a named pipe would never be read
	}
	out.Unnamed = unnamed(inside(r.Root, file))
	system := append(Request{Env: func(string) string { return "" }}.otherLibDirs(k), "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib")
	done := map[string]bool{}
	for todo := []string{inside(r.Root, file)}; len(todo) > 0; todo = todo[1:] {
		libs := newHostEnv(ctx, r).sharedLibs(todo[0])
		for _, name := range slices.Sorted(maps.Keys(libs)) {
			short, _, _ := strings.Cut(strings.TrimPrefix(name, "lib"), ".so")
			if ofToolkit().MatchString(short) {
				out.Toolkit = out.Toolkit || libs[name] == ""
				continue
			}
			if done[name] || ofCompiler().MatchString(short) {
				continue
			}
			done[name] = true
			found := libs[name]
			beside := found == ""
			if beside { // the program's runpath leads there: see plan.LibraryFolders
				if found = filepath.Join(filepath.Dir(todo[0]), name); !exists(found) {
					out.Missing = name
					continue
				}
				todo = append(todo, found)
			}
			if rel, err := filepath.Rel(r.Root, found); err == nil && filepath.IsLocal(rel) {
				found = rel
			}
			if dir := filepath.Dir(found); !slices.Contains(system, dir) {
				out.Files = append(out.Files, found)
				if beside && !slices.Contains(out.Beside, dir) {
					out.Beside = append(out.Beside, dir)
				}
			}
		}
	}
	return out
}

// unnamed reports whether file is a shared library without DT_SONAME.
func unnamed(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	return f.Type == elf.ET_DYN && err == nil && len(names) == 0
}

// isBinary reports whether file is an object or archive and not a linker script: libc.so is text.
func isBinary(file string) bool {
	head := headOf(file, 4)
	return head == "\x7fELF" || head == "!<ar"
}

// headOf returns the first n bytes of a file, or all of a shorter one.
func headOf(file string, n int64) string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, n))
	return string(head)
}

// hostEnv is one probing. It records the files and paths that it observed, for the memo.
type hostEnv struct {
	ctx   context.Context
	req   Request
	began time.Time
	// read holds the files and folders that were read, with digests of their content; zero for
	// files that are compared by stat.
	read     map[string]cache.Digest
	folders  map[string]bool             // those of read that are folders
	absent   map[string]bool             // absent paths that would have been preferred
	doubt    bool                        // something read is not known
	digests  map[cache.Stat]cache.Digest // by file, independent of its name
	covers   map[string][]string         // files whose content is in a fingerprint, by fingerprint
	answers  map[string]answered         // by command line
	needs    map[string]needing          // by file: the libraries that it is linked with
	trouble  bool                        // something failed that may succeed the next time
	parts    map[string]string           // of the toolkit, by role; "" is absent
	libIndex map[string][]string         // of ldconfig; nil until it is read
	// libPath holds the folders that the loader searches before LD_LIBRARY_PATH, for programs that
	// nvcc starts.
	libPath []string
	misses  toolchain.Missed // of the CUDA toolchain block
	// limit is the newest major version of g++ that the toolkit accepts; 0 if its headers state
	// none.
	limit   int
	hipLink clang.Steps // of a link of relocatable AMD code
	// hipTrial is the error of the trial compile and link of device code, "" if both succeeded.
	hipTrial string
}

func newHostEnv(ctx context.Context, r Request) *hostEnv {
	return &hostEnv{ctx: ctx, req: r, began: time.Now(), read: map[string]cache.Digest{}, folders: map[string]bool{}, absent: map[string]bool{},
		digests: map[cache.Stat]cache.Digest{}, covers: map[string][]string{}, answers: map[string]answered{}, needs: map[string]needing{}}
}

func (w *hostEnv) env(name string) string { return w.req.Env(name) }

func (w *hostEnv) collect() plan.Facts {
	var f plan.Facts
	if w.req.NeedCUDA {
		f.CUDA, f.CUDAError = w.toolkit()
		f.CUDAMisses = w.misses
	}
	if w.req.NeedAMD {
		f.HIP, f.HIPError = w.hip()
	}
	if w.req.NeedHIPHeaders {
		f.HIPHeaders = w.hipHeaders()
	}
	switch {
	case f.CUDA != nil && f.CUDA.Clang != nil: // its host code is compiled by clang as well
		f.CXX = w.compiler(cmp.Or(w.req.HostCompiler, f.CUDA.Clang.Driver.Path))
		f.CC = w.compiler(cFor(f.CXX.Path), "clang", "gcc", "cc")
	case f.CUDA != nil:
		f.CXX = f.CUDA.HostCXX
		f.CC = w.compiler(cFor(f.CXX.Path), "gcc", "clang", "cc")
	default:
		f.CXX = w.compiler(w.req.HostCompiler, "g++", "clang++", "c++")
		f.CC = w.compiler(cFor(w.req.HostCompiler), "gcc", "clang", "cc")
	}
	f.AR = w.program("ar")
	f.HostLTO = w.hostLTO(f.CXX, f.AR)
	f.LinkDepfile = w.linkDepfile(f.CXX.Path)
	f.LinkTrace = f.LinkDepfile && w.isGNULinker(f.CXX.Path)
	return f
}

// find returns the path of a program in a PATH, or "".
func find(name, path string) string {
	places := places(name, path)
	if i := slices.IndexFunc(places, isProgram); i >= 0 {
		return places[i]
	}
	return ""
}

// places returns the paths where a program may be: in the absolute folders of a PATH, or the name
// itself if it is a path.
func places(name, path string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(d string) bool { return !filepath.IsAbs(d) })
	for i, d := range dirs {
		dirs[i] = filepath.Join(d, name)
	}
	return dirs
}

func isProgram(p string) bool {
	info, err := os.Stat(p)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// lookup is find, but records the preferred paths that are absent.
func (w *hostEnv) lookup(name, path string) string {
	if strings.Contains(name, "/") {
		name = inside(w.req.Root, name)
	}
	for _, p := range places(name, path) {
		if isProgram(p) {
			return p
		}
		w.absent[p] = true
	}
	return ""
}

// output runs a program and returns its standard output and error.
func (w *hostEnv) output(argv ...string) (string, error) {
	return w.run(argv, (*exec.Cmd).CombinedOutput)
}

// run runs a program in a new private folder, where no other user can place files that the program
// would find. It removes the name of the folder from the output.
func (w *hostEnv) run(argv []string, run func(*exec.Cmd) ([]byte, error)) (string, error) {
	dir, err := makeTemp("kbuild-try-")
	if w.note(err); err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cmd := w.command(argv)
	cmd.Dir = dir
	out, err := run(cmd)
	w.note(err)
	return strings.ReplaceAll(string(out), dir, ""), err
}

// answer runs a program and returns its standard output, trimmed. Each command runs once: the C++
// compiler of the project is often also nvcc's, or also the C compiler.
func (w *hostEnv) answer(argv ...string) (string, error) {
	question := strings.Join(argv, "\x00")
	if known, ok := w.answers[question]; ok {
		return known.text, known.err
	}
	out, err := w.run(argv, (*exec.Cmd).Output)
	w.answers[question] = answered{strings.TrimSpace(out), err}
	return w.answers[question].text, err
}

// answered is the result of a program.
type answered struct {
	text string
	err  error
}

// folderWith creates a folder with one file, to try a tool in; the caller removes it. It returns ""
// if that fails.
func (w *hostEnv) folderWith(name, text string) string {
	dir, err := os.MkdirTemp("", "kbuild-try-")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)
	}
	if w.note(err); err != nil {
		os.RemoveAll(dir)
		return ""
	}
	return dir
}

// note records an error that is not the fault of the program that was run.
func (w *hostEnv) note(err error) { w.trouble = w.trouble || isTrouble(err) }

// isTrouble reports whether a failure may be temporary (no memory, no space, killed). A program
// that exited with an error status would fail again.
func isTrouble(err error) bool {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return false
	case errors.As(err, &exit):
		return !exit.Exited()
	}
	return true
}

func (w *hostEnv) command(argv []string) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "NVCC_APPEND_FLAGS=", "NVCC_PREPEND_FLAGS=")
	return cmd
}

// fingerprint returns a digest of the content of files under their roles. An empty path is recorded
// as absent.
func (w *hostEnv) fingerprint(parts map[string]string, texts ...string) (string, error) {
	h := sha256.New()
	for _, r := range slices.Sorted(maps.Keys(parts)) {
		if parts[r] == "" {
			fmt.Fprintf(h, "%s absent\n", r)
			continue
		}
		d, err := w.digest(parts[r])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %s\n", r, d)
	}
	for _, t := range texts {
		fmt.Fprintf(h, "text %d %s\n", len(t), t)
	}
	id := hex.EncodeToString(h.Sum(nil))
	w.cover(id, parts, texts)
	return id, nil
}

// there reports whether a file exists, and records it if it does not.
func (w *hostEnv) there(name string) bool {
	if exists(name) {
		return true
	}
	w.absent[name] = true
	return false
}

// watch makes the memo invalid when an entry is added to a folder, or when the folder itself
// appears.
func (w *hostEnv) watch(dir string) {
	if dir = filepath.Clean(dir); w.comes(dir) {
		w.reads(dir)
	}
}

// comes makes the memo invalid when an absent path appears, or the first absent folder on the way
// to it.
func (w *hostEnv) comes(name string) (there bool) {
	for name != "/" && !exists(filepath.Dir(name)) {
		name = filepath.Dir(name)
	}
	return w.there(name)
}

// oldDigests holds digests of files that are old enough for their stats to be trusted. The probes
// for CUDA and for HIP share host compilers and LLVM.
var oldDigests sync.Map

// digest returns the digest of a file's content. A file is read once under all its names: C and C++
// compilers share most of what they run, and clang is one program.
func (w *hostEnv) digest(name string) (d cache.Digest, err error) {
	began := time.Now()
	st, err := cache.StatFile(name)
	if err != nil {
		w.doubt = true // it vanished
		return d, fmt.Errorf("reading a tool: %w", err)
	}
	d, known := w.digests[st]
	if old, ok := oldDigests.Load(st); ok && !known {
		d, known = old.(cache.Digest), true
	}
	if !known {
		if d, err = cache.DigestFile(name); err != nil {
			w.read[name] = cache.Digest{}
			return d, fmt.Errorf("reading a tool: %w", err)
		}
		w.digests[st] = d
		if st.Before(began) {
			oldDigests.Store(st, d)
		}
	}
	w.read[name] = d
	return d, nil
}

// program identifies a tool that is a single file.
func (w *hostEnv) program(name string) toolchain.Tool {
	p := w.lookup(name, w.env("PATH"))
	if p == "" {
		return toolchain.Tool{Error: fmt.Sprintf("%s was not found in PATH; install binutils.", name)}
	}
	parts := w.sharedLibs(p)
	parts["driver"] = p
	plugins, libs := w.plugins(p)
	maps.Copy(parts, plugins)
	id, err := w.fingerprint(parts, slices.Sorted(maps.Keys(libs))...)
	if err != nil {
		return toolchain.Tool{Error: err.Error()}
	}
	w.cover(id, libs, nil)
	text, _ := w.answer(p, "--version")
	return toolchain.Tool{Path: p, Version: dottedRE().FindString(text), ID: id}
}

// dottedRE finds the version in "GNU ar (GNU Binutils for Debian) 2.40".
var dottedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(\.\d+)+`) })
