// Package probe looks at the world and writes down the Facts that the planner needs: toolkits, host
// compilers, GPUs, what prebuilt files hold. It plans nothing.
//
// A tool's identity is the content of everything it runs or reads on its own account. What a file
// is called and when it was installed do not matter; a ptxas replaced under the same nvcc does.
package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
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
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// Request says what to find out.
type Request struct {
	Root           string                    // project root; relative paths of Prebuilt start here
	Compiler       string                    // nvcc or a clang, by name or path; "" is nvcc
	HostCompiler   string                    // "" lets the probe choose one that the toolkit supports
	Missing        string                    // what to say where Compiler is not there; "" says where it was looked for
	MissingOf      string                    // the attribute of the toolchain block that names it
	Version        string                    // what the manifest says of the toolkit's version, ">= 11.2, < 13", for messages
	Accepts        func(version string) bool // whether that allows a version; nil is any
	NeedCUDA       bool
	HIPCompiler    string // hipcc or a clang, by name or path; "" is hipcc
	HIPVersion     string // what the manifest says of clang's version
	HIPAccepts     func(version string) bool
	NeedHIP        bool
	NeedHIPHeaders bool // something is HIP for NVIDIA's GPUs
	NeedNative     bool // look for GPUs
	NativeCPU      bool // something is compiled for the processor of this machine
	Prebuilt       []string
	Libs           []Lib
	Env            func(string) string
	MemoPath       string // folder that remembers answers between runs; "" is none
}

// Lib is a library named by -l, to be found as a linker would.
type Lib struct {
	Name string
	Dirs []string
}

// Collect gathers the facts. What is missing is said in the facts (CUDAError, Tool.Error), since
// only the planner knows whether it is needed; the error is for a broken world, as a TempError.
func Collect(ctx context.Context, r Request) (plan.Facts, error) {
	memo, key := r.memo()
	facts, ok := loadMemo(memo, key)
	if !ok {
		if err := checkTemp(); err != nil {
			return plan.Facts{}, err
		}
		w := newWorld(ctx, r)
		facts = w.collect()
		saveMemo(memo, key, facts, w)
	}
	facts.NVCCFlags = slices.Concat(strings.Fields(r.Env("NVCC_PREPEND_FLAGS")), strings.Fields(r.Env("NVCC_APPEND_FLAGS")))
	facts.Prebuilt = map[string]plan.Library{}
	facts.Behind = map[string]plan.Behind{}
	for _, f := range r.Prebuilt {
		facts.Prebuilt[f] = inspect(r.Root, f)
		facts.Behind[f] = behind(ctx, r, f, facts.CUDA)
		if !r.NeedHIP && holdsAMD(facts.Prebuilt[f]) {
			r.NeedHIP = true // a program of host sources that links it needs HIP's runtime
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
		r.NeedCUDA = true // a program of host sources that links it needs a device link, or its libraries
		return Collect(ctx, r)
	}
	if r.NeedNative {
		facts.NativeGPU = gpus(ctx, r.Env)
	}
	if r.NativeCPU {
		facts.NativeCPU = nativeCPU(ctx, r, facts)
	}
	return facts, ctx.Err()
}

// inspect reads what a prebuilt file holds.
func inspect(root, name string) plan.Library {
	f, err := fatbin.ReadFile(inside(root, name))
	if err != nil {
		if os.IsNotExist(err) {
			return plan.Library{Error: "there is no such file"}
		}
		return plan.Library{Error: err.Error()}
	}
	lib := plan.Library{Form: f.Kind.String()}
	for _, m := range f.Members {
		pm := plan.Member{Name: m.Name, Relocatable: m.Relocatable, NewDriver: m.NewDriver, Fatbins: m.Fatbins, Versions: m.Versions}
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

func holdsAMD(lib plan.Library) bool {
	return slices.ContainsFunc(lib.Members, func(m plan.Member) bool {
		return slices.ContainsFunc(m.Images, func(i gencode.Image) bool { return strings.HasPrefix(i.Name, "gfx") || i.Name == gencode.SPIRVTarget })
	})
}

// inside is a path of the project, absolute.
func inside(root, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(root, p)
}

// libDirs are the folders where a linker looks for a library.
func (r Request) libDirs(l Lib, k *plan.Toolkit) []string {
	return append(slices.Clone(l.Dirs), r.otherLibDirs(k)...)
}

// otherLibDirs are the folders that a link searches after those that the manifest names.
func (r Request) otherLibDirs(k *plan.Toolkit) (dirs []string) {
	if k != nil {
		dirs = slices.Clone(k.LibDirs)
	}
	dirs = append(dirs, filepath.SplitList(r.Env("LIBRARY_PATH"))...)
	return append(dirs, systemFolders[:]...)
}

// systemFolders are those that a linker searches last.
var systemFolders = [...]string{"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}

// searched are the libraries, each name once, with all folders that some link searches for it.
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

// libFiles are the files that -lNAME can mean in a folder: a shared library before an archive, or
// the one that -l:FILE names.
func libFiles(dir, name string) []string {
	if file, ok := strings.CutPrefix(name, ":"); ok {
		return []string{filepath.Join(dir, file)}
	}
	return []string{filepath.Join(dir, "lib"+name+".so"), filepath.Join(dir, "lib"+name+".a")}
}

// libIn is the file that -lNAME means in a folder, "" if there is none.
func libIn(root, dir, name string) string {
	for _, file := range libFiles(dir, name) {
		if exists(inside(root, file)) {
			return file
		}
	}
	return ""
}

// addStatic notes under key the archive that -lNAME means in some folders, if it holds device code
// of NVIDIA, and what that is. Nothing is noted if it means no file there.
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
		if lib.Error == "" && len(lib.Members) > 0 && !holdsAMD(lib) { // else not ours to say: ld reads it, or finds fault with it
			f.Static[key], f.Prebuilt[file] = file, lib
		}
		return
	}
}

// findLib is the file that -lNAME means; "" for a library of the toolkit or of the compiler. unseen
// says why it may be another.
func (r Request) findLib(l Lib, k *plan.Toolkit) (file, unseen string) {
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

// ofCompiler are libraries of compilers and of libc, which know no program: some are scripts of the
// linker, and some in folders that the compiler alone knows.
var ofCompiler = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(c|m|mvec|pthread|dl|rt|util|anl|resolv|crypt|gcc|gcc_s|gcc_eh|stdc\+\+|stdc\+\+fs|supc\+\+|c\+\+|c\+\+abi|gomp|omp|iomp5|gfortran|quadmath|atomic|ssp|gcov|[atlu]san|hwasan)$`)
})

// ofToolkit are libraries of a toolkit that shares its folder with the system: Debian's is in
// /usr/lib/x86_64-linux-gnu.
var ofToolkit = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(cuda|cudart|cudadevrt|cublas|cublasLt|cufft|cufftw|cufile|cufile_rdma|cuinj64|accinj64|culibos|cupti|curand|cusolver|cusolver_lapack|cusolverMg|cusparse|lapack|metis|npp[a-z]+|nvblas|nvjpeg|nvrtc|nvrtc-builtins|nvToolsExt|nvvm|nvptxcompiler|nvperf_host|nvperf_target|nvJitLink|nvfatbin|nvidia-ml|cudnn[a-z_]*|OpenCL)(_static)?$`)
})

// behind looks for the libraries that a shared one needs in turn: a linker exports to them what
// they refer to as well. Those of the system, of the toolkit and of the compiler know no program.
func behind(ctx context.Context, r Request, file string, k *plan.Toolkit) (out plan.Behind) {
	if info, err := os.Stat(inside(r.Root, file)); err != nil || !info.Mode().IsRegular() {
		return out // a named pipe would never be read
	}
	out.Unnamed = unnamed(inside(r.Root, file))
	system := append(Request{Env: func(string) string { return "" }}.otherLibDirs(k), "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib")
	done := map[string]bool{}
	for todo := []string{inside(r.Root, file)}; len(todo) > 0; todo = todo[1:] {
		libs := newWorld(ctx, r).sharedLibs(todo[0])
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
			if beside { // where the program is led to: see plan.LibraryFolders
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

// unnamed reports a shared library without DT_SONAME.
func unnamed(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	return f.Type == elf.ET_DYN && err == nil && len(names) == 0
}

// isBinary tells an object or archive from a script of the linker: libc.so is text.
func isBinary(file string) bool {
	head := headOf(file, 4)
	return head == "\x7fELF" || head == "!<ar"
}

// headOf is how a file begins, in at most n bytes.
func headOf(file string, n int64) string {
	f, err := regular.Open(file, os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, n))
	return string(head)
}

// world is one probing; it remembers what it looked at, for the memo.
type world struct {
	ctx      context.Context
	req      Request
	read     map[string]stamp    // files whose content entered an identity, as they were before they were read
	absent   map[string]bool     // paths that would have been preferred
	digests  map[stamp]string    // by file, whatever it is called
	covers   map[string][]string // files whose content is in an identity, by identity
	answers  map[string]answered // by command line
	needs    map[string]needing  // by file: what it is linked with
	trouble  bool                // something failed that may not fail the next time
	parts    map[string]string   // of the toolkit, by role; "" is absent
	libIndex map[string][]string // of ldconfig, once it was read
	libPath  []string            // folders that the loader searches before those of LD_LIBRARY_PATH, for what nvcc starts
	misses   plan.Missed         // of the CUDA toolchain block
	limit    int                 // newest major version of g++ that the toolkit takes; 0 if it does not say
	hipLink  clang.Steps         // of a link of relocatable AMD code
	hipTrial string              // what failed when device code was compiled and linked for a trial, "" if nothing did
}

func newWorld(ctx context.Context, r Request) *world {
	return &world{ctx: ctx, req: r, read: map[string]stamp{}, absent: map[string]bool{}, digests: map[stamp]string{}, covers: map[string][]string{}, answers: map[string]answered{}, needs: map[string]needing{}}
}

func (w *world) env(name string) string { return w.req.Env(name) }

func (w *world) collect() plan.Facts {
	var f plan.Facts
	if w.req.NeedCUDA {
		f.CUDA, f.CUDAError = w.toolkit()
		f.CUDAMisses = w.misses
	}
	if w.req.NeedHIP {
		f.HIP, f.HIPError = w.hip()
	}
	if w.req.NeedHIPHeaders {
		f.HIPHeaders = w.hipHeaders()
	}
	switch {
	case f.CUDA != nil && f.CUDA.Clang != nil: // whose host code is clang's as well
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

// find looks a program up in a PATH.
func find(name, path string) string {
	places := places(name, path)
	if i := slices.IndexFunc(places, isProgram); i >= 0 {
		return places[i]
	}
	return ""
}

// places are where a program may be: in the absolute folders of a PATH, or where its name says.
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

// lookup is find, remembering the better places that were empty.
func (w *world) lookup(name, path string) string {
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

// output runs a program and gives its standard output and error.
func (w *world) output(argv ...string) (string, error) {
	return w.run(argv, (*exec.Cmd).CombinedOutput)
}

// run runs a program in a folder of its own, where nobody else may put what it would find, and
// leaves the name of the folder out of what it prints.
func (w *world) run(argv []string, run func(*exec.Cmd) ([]byte, error)) (string, error) {
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

// answer runs a program and gives its standard output, trimmed. The same question is asked once:
// the C++ compiler of the project is often nvcc's as well, or the one for C.
func (w *world) answer(argv ...string) (string, error) {
	question := strings.Join(argv, "\x00")
	if known, ok := w.answers[question]; ok {
		return known.text, known.err
	}
	out, err := w.run(argv, (*exec.Cmd).Output)
	w.answers[question] = answered{strings.TrimSpace(out), err}
	return w.answers[question].text, err
}

// answered is what a program said.
type answered struct {
	text string
	err  error
}

// folderWith makes a folder with one file, to try a tool in; the caller removes it. It is "" if
// that cannot be done.
func (w *world) folderWith(name, text string) string {
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

// note notes an error that says nothing of the program that was run.
func (w *world) note(err error) { w.trouble = w.trouble || isTrouble(err) }

// isTrouble tells a failure of the moment (no memory, no space, killed) from a program that refused
// what it was asked: that one would refuse it again.
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

func (w *world) command(argv []string) *exec.Cmd {
	cmd := exec.CommandContext(w.ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "NVCC_APPEND_FLAGS=", "NVCC_PREPEND_FLAGS=")
	return cmd
}

// identity digests the content of files under the roles they play. An empty path is noted as
// absent.
func (w *world) identity(parts map[string]string, texts ...string) (string, error) {
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

// reads notes that an answer depends on a file. The stamp is taken before the content, so that a
// change while it is read cannot hide.
func (w *world) reads(name string) {
	if _, ok := w.read[name]; ok {
		return
	}
	s, _ := stampOf(name) // without one the memo does not match, and the world is probed again
	s.Path = name
	w.read[name] = s
}

// there reports whether a file exists, and remembers if not.
func (w *world) there(name string) bool {
	if exists(name) {
		return true
	}
	w.absent[name] = true
	return false
}

// watch has the world asked again when something comes to a folder, or the folder itself.
func (w *world) watch(dir string) {
	if dir = filepath.Clean(dir); w.comes(dir) {
		w.reads(dir)
	}
}

// comes has the world asked again when a path comes that is not there, or the first folder on the
// way to it.
func (w *world) comes(name string) (there bool) {
	for name != "/" && !exists(filepath.Dir(name)) {
		name = filepath.Dir(name)
	}
	return w.there(name)
}

// oldDigests are the digests of files that are so old that their stamp changes when they do, as in
// a memo. What is probed for CUDA and for HIP has host compilers and LLVM in common.
var oldDigests sync.Map

// digest is the content of a file, which is read once under all its names: C and C++ compilers
// share most of what they run, and clang is one program.
func (w *world) digest(name string) (string, error) {
	w.reads(name)
	file := w.read[name]
	file.Path = ""
	if d, ok := w.digests[file]; ok {
		return d, nil
	}
	if d, ok := oldDigests.Load(file); ok {
		return d.(string), nil
	}
	old := time.Now().Add(-2 * time.Second).UnixNano()
	f, err := regular.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return "", fmt.Errorf("reading a tool: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	d := hex.EncodeToString(h.Sum(nil))
	if file != (stamp{}) { // without a stamp it is no known file
		w.digests[file] = d
		if file.Ctime < old {
			oldDigests.Store(file, d)
		}
	}
	return d, nil
}

// program is a tool that is one file.
func (w *world) program(name string) plan.Tool {
	p := w.lookup(name, w.env("PATH"))
	if p == "" {
		return plan.Tool{Error: fmt.Sprintf("%s was not found in PATH; install binutils.", name)}
	}
	parts := w.sharedLibs(p)
	parts["driver"] = p
	plugins, libs := w.plugins(p)
	maps.Copy(parts, plugins)
	id, err := w.identity(parts, slices.Sorted(maps.Keys(libs))...)
	if err != nil {
		return plan.Tool{Error: err.Error()}
	}
	w.cover(id, libs, nil)
	text, _ := w.answer(p, "--version")
	return plan.Tool{Path: p, Version: dottedRE().FindString(text), ID: id}
}

// dottedRE finds the version in "GNU ar (GNU Binutils for Debian) 2.40".
var dottedRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(\.\d+)+`) })

// memo is the file that remembers the answers, "" for none, and what they depend on besides files.
func (r Request) memo() (file, key string) {
	key = r.key()
	if r.MemoPath == "" {
		return "", key
	}
	return fmt.Sprintf("%s/%x.json", r.MemoPath, sha256.Sum256([]byte(key))), key
}

// EnvNames are the variables that the answers depend on.
var EnvNames = [...]string{"PATH", "CUDA_HOME", "CUDA_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "LIBRARIES", "INCLUDES"}

// key is everything the answers depend on besides the files themselves.
func (r Request) key() string {
	env := map[string]string{}
	if home := r.Env("HOME"); home != "" {
		env["HOME"] = home // where clang may find options, now or later
	}
	for _, n := range slices.Concat(EnvNames[:], run.HIPNames[:]) {
		env[n] = r.Env(n)
	}
	root := ""
	if strings.Contains(r.Compiler+r.HostCompiler+r.HIPCompiler, "/") {
		root = r.Root // a relative path starts there
	}
	b, _ := json.Marshal([]any{memoVersion, root, r.Compiler, r.HostCompiler, r.Version, r.NeedCUDA, r.HIPCompiler, r.HIPVersion, r.NeedHIP, r.NeedHIPHeaders, env})
	return string(b)
}
