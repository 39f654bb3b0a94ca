// Package launcher_test holds `kbuild cc` against the compilers that it stands before.
package launcher_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// project is a folder with sources that are compiled both ways, in turn, at the same place.
type project struct{ e2e.Project }

func newProject(t *testing.T, tk tooltest.Toolkit) *project {
	p := &project{e2e.Unpack(t, "sources")}
	p.Use(tk)
	p.Env = append(p.Env, "TMPDIR="+t.TempDir())
	for _, dir := range []string{"plain", "mine"} {
		if err := os.Mkdir(filepath.Join(p.Dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// eachToolkit runs f for the oldest toolkit, and in make test-all for the newest. What lies between
// is no other for a launcher.
func eachToolkit(t *testing.T, f func(t *testing.T, tk tooltest.Toolkit)) {
	t.Parallel()
	list := tooltest.Toolkits(t)
	for _, tk := range slices.Compact([]tooltest.Toolkit{list[0], list[len(list)-1]}) {
		t.Run(tk.Release, func(t *testing.T) {
			t.Parallel()
			if tk != list[0] {
				tooltest.Broad(t)
			}
			f(t, tk)
		})
	}
}

// run is what a command said, and how it ended.
type run struct {
	stdout, stderr string
	status         int
	files          map[string][]byte // below out
}

// times differ from run to run.
var times = regexp.MustCompile(`Compile time = [0-9.]+ ms|tmpxft_[0-9a-f]{8}_[0-9a-f]{8}`)

// command runs a command and takes what it has made in the folder out.
func (p *project) command(argv ...string) run {
	p.T.Helper()
	out := filepath.Join(p.Dir, "out")
	if err := os.MkdirAll(out, 0o777); err != nil {
		p.T.Fatal(err)
	}
	cmd := p.Command(argv...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Run()
	r := run{times.ReplaceAllString(stdout.String(), ""), times.ReplaceAllString(stderr.String(), ""), cmd.ProcessState.ExitCode(), map[string][]byte{}}
	entries, err := os.ReadDir(out)
	if err != nil {
		p.T.Fatal(err)
	}
	for _, e := range entries {
		r.files[e.Name()] = p.Read("out/" + e.Name())
		if err := os.Remove(filepath.Join(out, e.Name())); err != nil {
			p.T.Fatal(err)
		}
	}
	return r
}

// last is the last line of the launcher's log.
func (p *project) last() (e struct {
	Result, Why string
	Ran, Taken  int
}) {
	p.T.Helper()
	var cache string
	for _, v := range p.Env {
		if dir, ok := strings.CutPrefix(v, "KBUILD_CACHE_DIR="); ok {
			cache = dir
		}
	}
	text, err := os.ReadFile(filepath.Join(cache, "commands", "log"))
	if err != nil {
		text, err = os.ReadFile(filepath.Join(cache, "v2", "commands", "log"))
	}
	if err != nil {
		p.T.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &e); err != nil {
		p.T.Fatal(err)
	}
	return e
}

// sameAsPlain runs a command plainly and by the launcher, and gives the result of the call.
func (p *project) sameAsPlain(argv ...string) string {
	p.T.Helper()
	plain := p.command(argv...)
	mine := p.command(append([]string{"kbuild", "cc", "--"}, argv...)...)
	p.same(plain, mine)
	return p.last().Result
}

// same holds what a command made by the launcher against what it makes plainly. Of an object, what
// nvcc's module id and the order of its symbols do to it is left aside.
func (p *project) same(plain, mine run) {
	p.T.Helper()
	p.sameWords(plain, mine)
	for name, text := range plain.files {
		switch filepath.Ext(name) {
		case ".o":
			p.sameObject(name, text, mine.files[name])
		case ".cubin", ".fatbin":
			p.sameCode(name, text, mine.files[name])
		default:
			a, b := withoutIDs(text), withoutIDs(mine.files[name])
			if p.last().Result == "hit" { // of another checkout: compilers break lines by the length of names
				a, b = lineBreak.ReplaceAllString(a, " "), lineBreak.ReplaceAllString(b, " ")
			}
			if a != b {
				p.T.Errorf("%s is other than plainly:\n%s", name, cmp.Diff(a, b))
			}
		}
	}
}

var lineBreak = regexp.MustCompile(` +\\\n +`)

// sameWords holds what a command said, its status, and the names of what it made against those that
// it has plainly.
func (p *project) sameWords(plain, mine run) {
	p.T.Helper()
	if mine.status != plain.status || mine.stdout != plain.stdout || mine.stderr != plain.stderr {
		p.T.Errorf("ends with %d and says %q, %q; plainly with %d, %q, %q", mine.status, mine.stdout, mine.stderr, plain.status, plain.stdout, plain.stderr)
	}
	if a, b := slices.Sorted(maps.Keys(plain.files)), slices.Sorted(maps.Keys(mine.files)); !slices.Equal(a, b) {
		p.T.Errorf("makes %q, plainly %q", b, a)
	}
}

func withoutIDs(text []byte) string { return e2e.ModuleID.ReplaceAllString(string(text), "<id>") }

// sameObject compares the host's code, and the device's.
func (p *project) sameObject(name string, plain, mine []byte) {
	p.T.Helper()
	for _, section := range []string{".text", ".rodata", ".data", ".rodata.str1.1", ".rodata.str1.8"} {
		if a, b := sectionOf(p.T, plain, section), sectionOf(p.T, mine, section); withoutIDs(a) != withoutIDs(b) {
			p.T.Errorf("%s: %s is other than plainly:\n%q\n%q", name, section, b, a)
		}
	}
	if sectionOf(p.T, plain, ".nv_fatbin") != nil || sectionOf(p.T, plain, "__nv_relfatbin") != nil {
		p.sameCode(name, plain, mine)
	}
}

func (p *project) sameCode(name string, plain, mine []byte) {
	p.T.Helper()
	p.Write("plain/"+name, string(plain))
	p.Write("mine/"+name, string(mine))
	if a, b := p.ELFs("plain/"+name), p.ELFs("mine/"+name); a == "" || a != b { // LTO-IR and PTX are held against each other where they are linked
		if a != b {
			p.T.Errorf("%s: has code for %s, plainly for %s", name, b, a)
		}
		return
	}
	if a, b := p.DeviceCode("plain/"+name), p.DeviceCode("mine/"+name); a != b {
		p.T.Errorf("%s: the device code is other than plainly:\n%s\n%s", name, b, a)
	}
}

// sectionOf is the content of a section of an object; nil if it has none.
func sectionOf(t *testing.T, object []byte, name string) []byte {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Commands as build tools write them: see what is said, made and remembered.
var commands = map[string][]string{
	"CMake whole":  {"-forward-unknown-to-host-compiler", "-DWHERE", "-I@/inc", "-O3", "-DNDEBUG", "--generate-code=arch=compute_80,code=[sm_80]", "--generate-code=arch=compute_90,code=[compute_90,sm_90]", "-Xcompiler=-fPIC", "-MD", "-MT", "x/k.cu.o", "-MF", "out/k.cu.o.d", "-x", "cu", "-c", "@/k.cu", "-o", "out/k.cu.o"},
	"CMake rdc":    {"-forward-unknown-to-host-compiler", "-I@/inc", "-O3", "--generate-code=arch=compute_80,code=[sm_80]", "-MD", "-MT", "x/k.cu.o", "-MF", "out/k.cu.o.d", "-x", "cu", "-rdc=true", "-c", "@/k.cu", "-o", "out/k.cu.o"},
	"CMake lto":    {"-forward-unknown-to-host-compiler", "-I@/inc", "-O3", "--generate-code=arch=compute_80,code=[lto_80]", "-MD", "-MF", "out/k.d", "-x", "cu", "-rdc=true", "-c", "k.cu", "-o", "out/k.o"},
	"options file": {"--options-file", "options.rsp", "-MD", "-MF", "out/k.d", "-x", "cu", "-c", "k.cu", "-o", "out/k.o"},
	"torch":        {"--generate-dependencies-with-compile", "--dependency-output", "out/k.o.d", "-Iinc", "-c", "k.cu", "-o", "out/k.o", "-D__CUDA_NO_HALF_OPERATORS__", "--expt-relaxed-constexpr", "--compiler-options", "'-fPIC'", "-O3", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=compute_90", "-std=c++17"},
	"phony rules":  {"-MD", "-MP", "-MT", "a b", "-MF", "out/k.d", "-Iinc", "-c", "k.cu", "-o", "out/k k.o"},
	"own":          {"-Iinc", "-isystem", "inc", "-MMD", "-MP", "-MF", "out/k.d", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-c", "k.cu", "-o", "out/k.o"},
	"own alone":    {"-Iinc", "--generate-nonsystem-dependencies-with-compile", "-c", "./k.cu", "-o", "out/k.o"},
	"no output":    {"-Iinc", "-MD", "-c", "k.cu", "-o", "out/k.o"},
	"ptx":          {"-Iinc", "-arch=compute_80", "-ptx", "k.cu", "-o", "out/k.ptx"},
	"CMake ptx":    {"-forward-unknown-to-host-compiler", "-I@/inc", "-O3", "--generate-code=arch=compute_80,code=[compute_80]", "-MD", "-MT", "x/k.ptx", "-MF", "out/k.ptx.d", "-x", "cu", "-ptx", "@/k.cu", "-o", "out/k.ptx"},
	"own fatbin":   {"-Iinc", "-isystem", "inc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-DWARN", "-MMD", "-MP", "-fatbin", "k.cu", "-o", "out/k.fatbin"},
	"cubin":        {"-Iinc", "-arch=sm_80", "-cubin", "k.cu", "-o", "out/k.cubin"},
	"fatbin":       {"-Iinc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=compute_90", "-fatbin", "k.cu", "-o", "out/k.fatbin"},
	"warnings":     {"-Iinc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-DWARN", "-Xcompiler=-Wall,-Wextra", "-Xptxas=-v", "-MD", "-MF", "out/k.d", "-c", "k.cu", "-o", "out/k.o"},
	"debug":        {"-Iinc", "-g", "-lineinfo", "-arch=sm_80", "-c", "k.cu", "-o", "out/k.o"},
	"all-major":    {"-Iinc", "-arch=all-major", "-MD", "-MF", "out/k.d", "-c", "k.cu", "-o", "out/k.o"},
	"split words":  {"-I", "inc", "-D", "USE=1", "-gencode", "arch=compute_80,code=sm_80", "-O", "3", "-x", "cu", "-dc", "./k.cu", "-o", "out/k.o"},
}

// TestCommands has each command do the same as plainly, and once more from the cache.
func TestCommands(t *testing.T) {
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		p := newProject(t, tk)
		for _, name := range tooltest.Sample(commands, "fatbin", "warnings", "debug", "split words") {
			var argv []string
			for _, a := range commands[name] {
				argv = append(argv, strings.ReplaceAll(a, "@", p.Dir))
			}
			p.T = t
			plain := p.command(append([]string{"nvcc"}, argv...)...)
			first := p.command(append([]string{"kbuild", "cc", "--", "nvcc"}, argv...)...)
			p.same(plain, first)
			if e := p.last(); e.Result != "miss" {
				t.Errorf("%s: %+v", name, e)
			}
			second := p.command(append([]string{"kbuild-cc", "nvcc"}, argv...)...)
			if e := p.last(); e.Result != "hit" || e.Ran > 0 {
				t.Errorf("%s, again: %+v", name, e)
			}
			if second.status != 0 || second.stdout != first.stdout || second.stderr != first.stderr || !maps.EqualFunc(second.files, first.files, bytes.Equal) {
				t.Errorf("%s: the cache gives other than what was compiled", name)
			}
			if t.Failed() {
				t.Fatalf("%s: nvcc %q", name, argv)
			}
		}
	})
}

// One architecture more runs its own passes and those of all: the first architecture's come from
// the cache. So it is with a host compiler by its path.
func TestOneArchitectureMore(t *testing.T) {
	p := newProject(t, tooltest.Toolkit{})
	argv := []string{"kbuild", "cc", "nvcc", "-Iinc", "-rdc=true", "-gencode=arch=compute_80,code=sm_80", "-c", "k.cu", "-o", "out/k.o"}
	p.command(argv...)
	if e := p.last(); e.Result != "miss" {
		t.Fatalf("%+v", e)
	}
	p.command(slices.Insert(argv, 5, "-gencode=arch=compute_90,code=sm_90")...)
	if e := p.last(); e.Result != "miss" || e.Ran != 5 { // preprocess, cicc, ptxas; fatbinary, join
		t.Errorf("%+v", e)
	}
	for _, name := range []string{"g++-11", "g++-12", "g++"} {
		if file, err := exec.LookPath(name); err == nil {
			p.command(slices.Insert(argv, 5, "-ccbin", file)...)
			if e := p.last(); e.Result != "miss" {
				t.Errorf("-ccbin %s: %+v", file, e)
			}
			break
		}
	}
}

// What a build from a manifest has assembled is taken by the launcher: the key of ptxas and of
// fatbinary has neither the host compiler nor the name of the source.
func TestBuildAndLauncherShare(t *testing.T) {
	t.Parallel()
	p := newProject(t, tooltest.Toolkits(t)[0])
	p.Write("kernels.hcl", "library \"one\" {\n  sources = [\"one.cu\"]\n  code = [\"sm_80\", \"sm_90\"]\n}\n")
	p.Write("one.cu", "__global__ void one(float *x) { x[threadIdx.x] = 1; }\nvoid go(float *x) { one<<<1, 1>>>(x); }\n")
	p.Run("kbuild")
	p.command("kbuild", "cc", "nvcc", "-O3", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-c", "one.cu", "-o", "out/one.o")
	if e := p.last(); e.Taken < 3 {
		t.Errorf("it takes nothing of the build: %+v", e)
	}
}

// hostCommands are compiles of C++, by g++ and clang++.
var hostCommands = map[string][]string{
	"CMake":      {"-DUSE=1", "-I@/inc", "-O3", "-DNDEBUG", "-fPIE", "-MD", "-MT", "x/h.cpp.o", "-MF", "out/h.cpp.o.d", "-o", "out/h.cpp.o", "-c", "@/h.cpp"},
	"dot":        {"-Iinc", "-MD", "-c", "./h.cpp", "-o", "./out/h.o"},
	"debug":      {"-g", "-I", "inc", "-MD", "-MP", "-MF", "out/d", "-c", "h.cpp", "-o", "out/h.o"},
	"warnings":   {"-Wall", "-Wextra", "-DWARN", "-Iinc", "-c", "h.cpp", "-o", "out/h.o"},
	"language":   {"-x", "c++", "-Iinc", "-c", "h.txt", "-o", "out/h.o"},
	"file":       {"@host.rsp", "-c", "h.cpp", "-o", "out/h.o"},
	"own":        {"-Iinc", "-MMD", "-c", "./h.cpp", "-o", "./out/h.o"},
	"own named":  {"-isystem", "inc", "-MMD", "-MP", "-MF", "out/d", "-MT", "x y", "-c", "@/h.cpp", "-o", "out/h.o"},
	"joined":     {"-Iinc", "-O1", "-MD", "-MP", "-MFout/d", "-MTx y", "-xc++", "-c", "h.cpp", "-oout/h.o"},
	"assertions": {"-Iinc", "-O0", "-UNDEBUG", "-c", "@/h.cpp", "-o", "out/h.o"},
}

// cCommands are of C, or of C++ by a driver that goes by the ending.
var cCommands = map[string][]string{
	"C11":      {"-std=c11", "-O2", "-Iinc", "-MD", "-MT", "x/c.c.o", "-MF", "out/c.c.o.d", "-c", "@/c.c", "-o", "out/c.c.o"},
	"own":      {"-Iinc", "-MMD", "-g", "-c", "c.c", "-o", "out/c.o"},
	"warnings": {"-Wall", "-DWARN", "-Iinc", "-c", "c.c", "-o", "out/c.o"},
	"language": {"-x", "c", "-Iinc", "-c", "h.txt", "-o", "out/h.o"},
	"C++":      {"-Iinc", "-O2", "-c", "h.cpp", "-o", "out/h.o"},
}

// TestHost has compiles of C and C++ do the same as plainly, byte by byte, and once more from the
// cache.
func TestHost(t *testing.T) {
	t.Parallel()
	compilers := []string{"g++", "c++", "gcc", "cc"}
	for _, clang := range []string{"clang++-15", "clang++-17", "clang++-18", "clang++-19"} { // whichever hipcc has brought
		if _, err := exec.LookPath(clang); err == nil {
			compilers = append(compilers, clang, strings.Replace(clang, "++", "", 1))
			break
		}
	}
	for _, compiler := range compilers {
		p := newProject(t, tooltest.Toolkit{})
		commands := hostCommands
		if !strings.Contains(compiler, "++") {
			commands = cCommands
			p.Write("c.c", "#include <stdio.h>\n#include \"k.h\"\n#ifdef WARN\nstatic int never_called(void) { return 1; }\n#endif\nint c(int class) { return class + VALUE + EOF; }\n")
			p.Write("h.txt", "#include \"k.h\"\nint g(int class) { return class + VALUE; }\n")
		}
		for _, name := range tooltest.Sample(commands, "warnings", "own") {
			argv := []string{compiler}
			for _, a := range commands[name] {
				argv = append(argv, strings.ReplaceAll(a, "@/", p.Dir+"/"))
			}
			plain, first := p.command(argv...), p.command(append([]string{"kbuild", "cc", "--"}, argv...)...)
			if e := p.last(); e.Result != "miss" {
				t.Errorf("%s %s: %+v", compiler, name, e)
			}
			second := p.command(append([]string{"kbuild-cc"}, argv...)...)
			if e := p.last(); e.Result != "hit" {
				t.Errorf("%s %s, again: %+v", compiler, name, e)
			}
			for _, r := range []run{first, second} {
				if r.status != plain.status || r.stdout != plain.stdout || r.stderr != plain.stderr || !maps.EqualFunc(r.files, plain.files, bytes.Equal) {
					t.Errorf("%s %q: %d %q %q, plainly %d %q %q; files equal: %v", compiler, argv, r.status, r.stdout, r.stderr, plain.status, plain.stdout, plain.stderr,
						maps.EqualFunc(r.files, plain.files, bytes.Equal))
				}
			}
		}
		p.Edit("inc/k.h", "7", "8")
		argv := []string{compiler, "-Iinc", "-c", "h.cpp", "-o", "out/h.o"}
		p.command(append([]string{"kbuild-cc"}, argv...)...)
		p.Edit("inc/k.h", "8", "9")
		if plain, mine := p.command(argv...), p.command(append([]string{"kbuild-cc"}, argv...)...); !maps.EqualFunc(plain.files, mine.files, bytes.Equal) {
			t.Errorf("%s: an edit of a header is lost", compiler)
		}
		for range 2 { // where its object is already
			p.Run(append([]string{"kbuild-cc"}, argv...)...)
		}
		if e := p.last(); e.Result != "hit" {
			t.Errorf("%s: an object of its own: %+v", compiler, e)
		}
	}
}

// Clang puts the folder of the command into more than debug information, and the name of the object
// into what belongs to it elsewhere.
func TestClangNamesFolder(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("clang++-15"); err != nil {
		t.Skip(err)
	}
	p := newProject(t, tooltest.Toolkit{})
	p.Write("r.cpp", "static int g(int a) { return a + 1; }\nint f() { return g(3); }\n")
	for _, c := range []struct {
		result  string
		options []string
	}{
		{"miss", []string{"-fprofile-instr-generate", "-fcoverage-mapping"}},
		{"miss", []string{"-Rpass=.*"}},
		{"miss", []string{"-fsanitize=undefined"}},
		{"left", []string{"-g", "-gsplit-dwarf=single"}},
		{"left", []string{"-fembed-bitcode-marker"}},
	} {
		argv := slices.Concat([]string{"clang++-15", "-O2"}, c.options, []string{"-c", p.Dir + "/r.cpp", "-o", "out/r.o"})
		plain, mine := p.command(argv...), p.command(append([]string{"kbuild-cc"}, argv...)...)
		if p.sameWords(plain, mine); !maps.EqualFunc(plain.files, mine.files, bytes.Equal) {
			t.Errorf("%q: another object than plainly", c.options)
		}
		if e := p.last(); e.Result != c.result {
			t.Errorf("%q: %+v", c.options, e)
		}
	}
}

// What nvcc refuses, or kbuild does not take apart, is nvcc's own.
func TestLeft(t *testing.T) {
	tooltest.Broad(t)
	p := newProject(t, tooltest.Toolkit{})
	p.Write("c.c", "int c;\n")
	for _, argv := range [][]string{
		{"--version"},
		{"-Iinc", "-DERROR", "-c", "k.cu", "-o", "out/k.o"},
		{"-c", "missing.cu", "-o", "out/k.o"},
		{"@options.rsp", "-c", "k.cu", "-o", "out/k.o"},
		{"-Iinc", "-E", "k.cu", "-o", "out/k.ii"},
		{"-Iinc", "-M", "k.cu"},
		{"-Iinc", "-Xcompiler=-aux-info,/dev/null", "-c", "k.cu", "-o", "out/k.o"},
		{"-Iinc", "--keep", "--keep-dir", "out", "-cubin", "k.cu", "-o", "out/k.cubin"},
		{"-Iinc", "-arch=native", "-c", "k.cu", "-o", "out/k.o"},
		{"g++", "--coverage", "-c", "h.cpp", "-o", "out/h.o"},
		{"g++", "-E", "-x", "c++", "/dev/null"},
		{"g++", "-c", "c.c", "-o", "out/c.o"},
		{"gcc", "--version"},
	} {
		if !strings.HasPrefix(argv[0], "g") {
			argv = append([]string{"nvcc"}, argv...)
		}
		plain := p.command(argv...)
		mine := p.command(append([]string{"kbuild", "cc"}, argv...)...)
		if slices.Contains(argv, "--keep") || slices.Contains(argv, "--coverage") || slices.Contains(argv, "c.c") { // whose files have names and times of their own
			plain.files, mine.files = nil, nil
		}
		p.same(plain, mine)
		if e := p.last(); e.Result != "left" || e.Why == "" {
			t.Errorf("%q: %+v", argv, e)
		}
	}
}

// TestDeviceLink links what was compiled, with messages, and is not run again for a change of host
// code.
func TestDeviceLink(t *testing.T) {
	tooltest.Broad(t)
	eachToolkit(t, func(t *testing.T, tk tooltest.Toolkit) {
		for mode, flags := range map[string][3]string{"rdc": {"code=sm_80", "code=sm_90", ""}, "lto": {"code=lto_80", "code=lto_90", "-dlto"}} {
			p := newProject(t, tk)
			compile := func(name string) {
				t.Helper()
				p.Run("kbuild", "cc", "nvcc", "-Iinc", "-gencode=arch=compute_80,"+flags[0], "-gencode=arch=compute_90,"+flags[1], "-dc", name+".cu", "-o", name+".o")
			}
			compile("k")
			compile("g")
			p.Run("ar", "rc", "libg.a", "g.o")
			link := []string{"nvcc", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90", "-Xcompiler=-fPIC", "-shared", "-dlink", "k.o", "-o", "out/link.o", "-lrt", "libg.a", "-lcudadevrt"}
			if flags[2] != "" {
				link = slices.Insert(link, 1, flags[2])
			}
			if r := p.sameAsPlain(link...); r != "miss" {
				t.Errorf("%s: the link is a %s: %s", mode, r, p.last().Why)
			}
			p.Edit("k.cu", "int host() { return 1; }", "int host() { return 2; }")
			compile("k")
			if r := p.sameAsPlain(link...); r != "miss" || p.last().Ran > 4 || p.last().Taken == 0 {
				t.Errorf("%s: after an edit of host code the link is a %s: %+v", mode, r, p.last())
			}
			p.Edit("g.cu", "return x * 2", "return x * 3")
			compile("g")
			p.Run("ar", "rc", "libg.a", "g.o")
			if r := p.sameAsPlain(link...); r != "miss" {
				t.Errorf("%s: after an edit of device code the link is a %s", mode, r)
			}
		}
	})
}
