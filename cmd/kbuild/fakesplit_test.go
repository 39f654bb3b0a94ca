package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
	"github.com/kbuild-dev/kbuild/cmd/internal/pretend/devcode"
)

// A toolkit that can be taken apart, without a compiler of device code: nvcc shows steps as 11.8
// does (less the include of cuda_runtime.h), the host compiler is the real one, and the passes copy
// text. A device function is one line of the source. What a line says decides what becomes of it:
//
//	never_used         cicc warns, as for a variable
//	fake_killed        cicc is killed
//	fake_killed_once   cicc is killed beside the one that waits, and the second time must be alone
//	fake_waits         cicc waits until the other one was killed
//	fake_kills_driver  cicc ends as a driver does whose child was killed: status 137, no word
//	fake_crash         the same after a segmentation fault
//	fake_shared        ptxas: too much shared data
//	fake_unknown       ptxas fails in words that nobody knows
//
// A folder is such a toolkit if a cicc is linked beside nvcc. nvcc as one command adds a line to
// nvcc-ran.
var splitTools = map[string]func(args []string) int{
	"cicc": splitCICC, "ptxas": splitPTXAS, "cudafe++": splitCudafe, "nvlink": func([]string) int { return 1 },
}

// toolFolder is where this program is, by the name that it was called by: testscript.Main changes
// that.
var toolFolder = func() string {
	p, _ := exec.LookPath(os.Args[0])
	return filepath.Dir(p)
}()

// splitToolkit reports that this program is a tool of one: its cicc is this program too.
func splitToolkit() bool {
	_, err := os.Readlink(filepath.Join(toolFolder, "cicc"))
	return err == nil
}

// fakeSplit makes a project with such a toolkit. It needs a C++ compiler only.
func fakeSplit(t *testing.T, files map[string]string) *e2e.Project {
	t.Helper()
	base := t.TempDir()
	fakes, rest, _ := strings.Cut(os.Getenv("PATH"), ":") // testscript puts the fake tools of other tests first
	bin := filepath.Join(base, "bin")
	path := bin + ":" + rest
	p := &e2e.Project{T: t, Dir: filepath.Join(base, "project"), Path: path,
		Env: append(os.Environ(), "PATH="+path, "KBUILD_CACHE_DIR="+filepath.Join(base, "cache"), "MAKEFLAGS=", "CUDA_HOME=", "CUDA_PATH=")}
	p.Need("g++", "ar")
	for _, dir := range []string{bin, p.Dir} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"kbuild", "nvcc", "fatbinary", "cicc", "ptxas", "cudafe++", "nvlink"} {
		if err := os.Symlink(filepath.Join(fakes, "kbuild"), filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		p.Write(name, text)
	}
	return p
}

var gencodeRE = regexp.MustCompile(`^arch=(compute_(\w+)),code=(\w+)$`)

// splitSteps are the lines of the dry run, with files under keep and names that begin with stem.
func splitSteps(args []string, source, output, keep, stem string) (lines []string) {
	var flags, list []string
	var gencodes [][]string
	cxx := "g++"
	for i, a := range args {
		switch {
		case a == "-gencode":
			m := gencodeRE.FindStringSubmatch(args[i+1])
			gencodes, list = append(gencodes, m), append(list, m[2]+"0")
		case a == "-ccbin":
			cxx = args[i+1]
		case a == "-Xcompiler":
			flags = append(flags, args[i+1])
		case strings.HasPrefix(a, "-D") || strings.HasPrefix(a, "-I"):
			flags = append(flags, a)
		}
	}
	say := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	name := func(suffix string) string { return `"` + keep + "/" + stem + "." + suffix + `"` }
	common := fmt.Sprintf(`-D__CUDA_ARCH_LIST__=%s -E -x c++ -D__CUDACC__ -D__NVCC__ %s -m64 "%s"`, strings.Join(list, ","), strings.Join(flags, " "), source)
	more, images := "", ""
	if strings.Contains(common, "-DMISREAD ") {
		more = " --no-such-option"
	}
	compiled := map[string]bool{}
	for _, g := range gencodes {
		if !compiled[g[1]] {
			say(`%s -D__CUDA_ARCH__=%s0 %s -o %s`, cxx, g[2], common, name(g[1]+".cpp1.ii"))
			say(`cicc --orig_src_file_name "%s" --orig_src_path_name "%s" -arch %s -m64%s --include_file_name "%s.fatbin.c" --module_id_file_name %s --stub_file_name %s %s -o %s`,
				source, source, g[1], more, stem, name("module_id"), name(g[1]+".cudafe1.stub.c"), name(g[1]+".cpp1.ii"), name(g[1]+".ptx"))
			compiled[g[1]] = true
		}
		if g[1] == g[3] {
			images += fmt.Sprintf(` "--image3=kind=ptx,sm=%s,file=%s"`, g[2], strings.Trim(name(g[1]+".ptx"), `"`))
			continue
		}
		say(`ptxas -arch=%s -m64 %s -o %s`, g[3], name(g[1]+".ptx"), name(g[3]+".cubin"))
		images += fmt.Sprintf(` "--image3=kind=elf,sm=%s,file=%s"`, g[2], strings.Trim(name(g[3]+".cubin"), `"`))
	}
	primary := gencodes[len(gencodes)-1][1]
	say(`fatbinary --create=%s -64%s --embedded-fatbin=%s`, name("fatbin"), images, name("fatbin.c"))
	say(`%s %s -o %s`, cxx, common, name("cpp4.ii"))
	say(`cudafe++ --orig_src_file_name "%s" --orig_src_path_name "%s" --m64 --gen_c_file_name %s --stub_file_name "%s.%s.cudafe1.stub.c" --module_id_file_name %s %s`,
		source, source, name(primary+".cudafe1.cpp"), stem, primary, name("module_id"), name("cpp4.ii"))
	say(`%s -D__CUDA_ARCH__=%s0 -D__CUDA_ARCH_LIST__=%s -c -x c++ %s -m64 %s -o "%s"`, cxx, strings.TrimPrefix(primary, "compute_"),
		strings.Join(list, ","), strings.Join(flags, " "), name(primary+".cudafe1.cpp"), output)
	return lines
}

// splitNVCC is nvcc of such a toolkit: it shows its steps, or has a shell run them.
func splitNVCC(args []string) int {
	bin := toolFolder
	f := parseFake(args)
	if f.has["--dryrun"] {
		fmt.Printf("#$ _HERE_=%[1]s\n#$ PATH=%[1]s:%[2]s\n#$ LIBRARIES=\n#$ NVVMIR_LIBRARY_DIR=%[1]s\n", bin, os.Getenv("PATH"))
		if f.has["-dlink"] {
			fmt.Printf("#$ nvlink \"%s\" -o \"%s\"\n", strings.Join(f.inputs, `" "`), f.out)
		} else if f.has["--keep"] && len(f.codes) > 0 {
			fmt.Println("#$ " + strings.Join(splitSteps(args, f.inputs[len(f.inputs)-1], f.out, "kbuild_keep", "kbuild_source"), "\n#$ "))
		}
		return 0
	}
	fakeLog("nvcc-ran", strings.Join(args, " "))
	dir, err := os.MkdirTemp("", "nvcc-")
	if err != nil {
		return 1
	}
	defer os.RemoveAll(dir)
	stem := strings.TrimSuffix(filepath.Base(f.inputs[len(f.inputs)-1]), ".cu")
	os.WriteFile(filepath.Join(dir, stem+".module_id"), []byte("_nvcc_"), 0o666)
	for _, line := range splitSteps(args, f.inputs[len(f.inputs)-1], f.out, dir, stem) {
		cmd := exec.Command("sh", "-c", strings.Replace(line, "--no-such-option", "", 1))
		cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdout, os.Stderr, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if cmd.Run() != nil {
			if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
				return 128 + int(ws.Signal())
			}
			return cmd.ProcessState.ExitCode()
		}
	}
	if f.depfile != "" {
		os.WriteFile(f.depfile, []byte(f.out+" : "+f.inputs[len(f.inputs)-1]+"\n"), 0o666)
	}
	return 0
}

// fakeLog adds a line to a file of the project.
func fakeLog(file, line string) {
	if w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
		fmt.Fprintln(w, line)
		w.Close()
	}
}

// fakeOptions are the values of options by name, and the last argument that is none.
func fakeOptions(args []string) (value map[string]string, input string) {
	value = map[string]string{}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-arch" || a == "-o" || strings.HasSuffix(a, "_name"):
			value[a], i = args[i+1], i+1
		case strings.HasPrefix(a, "-"):
			name, v, _ := strings.Cut(a, "=")
			value[name] = v
		default:
			input = a
		}
	}
	return value, input
}

// textLine is a line of preprocessed text, and where it stands in the source.
type textLine struct {
	file, text string
	line       int
}

func textLines(name string) (lines []textLine) {
	text, _ := os.ReadFile(name)
	at := textLine{}
	for l := range strings.Lines(string(text)) {
		var n int
		var file string
		if c, _ := fmt.Sscanf(l, "# %d %q", &n, &file); c == 2 {
			at = textLine{file: file, line: n}
			continue
		}
		lines = append(lines, textLine{at.file, strings.TrimSpace(l), at.line})
		at.line++
	}
	return lines
}

func isDevice(text string) bool {
	return strings.Contains(text, "__global__") || strings.Contains(text, "__device__")
}

func splitCICC(args []string) int {
	o, input := fakeOptions(args)
	if _, bad := o["--no-such-option"]; bad {
		fmt.Fprintln(os.Stderr, "cicc: Unknown Command line argument '--no-such-option'.  Try: 'cicc --help'")
		return 1
	}
	id, _ := os.ReadFile(o["--module_id_file_name"])
	arch := strings.TrimPrefix(o["-arch"], "compute_")
	ptx := fmt.Sprintf(".version 7.8\n.target sm_%s\n.address_size 64\n", arch)
	stub := fmt.Sprintf("# 1 %q\n#include %q\n", o["--stub_file_name"], o["--include_file_name"])
	for _, l := range textLines(input) {
		if !isDevice(l.text) {
			continue
		}
		if strings.Contains(l.text, "never_used") {
			fmt.Fprintf(os.Stderr, "%s(%d): warning #177-D: variable \"never_used\" was declared but never referenced\n\n", l.file, l.line)
		}
		if status := fakeKills(l.text); status != 0 {
			return status
		}
		ptx += "// " + l.text + "\n"
		if strings.Contains(l.text, "__global__") {
			stub += fmt.Sprintf("# %d %q\n__attribute__((used)) static const char *stub_%s = %q;\n", l.line, l.file, fakeHash(l.text), id)
		}
	}
	if os.WriteFile(o["-o"], []byte(ptx), 0o666) != nil || os.WriteFile(o["--stub_file_name"], []byte(stub), 0o666) != nil {
		return 1
	}
	return 0
}

// fakeHash is a name made of a text's kernel.
func fakeHash(text string) string {
	return strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(strings.SplitN(text, "(", 2)[0], "_"), "_")
}

func fakeKills(text string) (status int) {
	const killed, waits = "cicc-was-killed", "cicc-waits"
	switch {
	case strings.Contains(text, "fake_kills_driver"):
		return 137
	case strings.Contains(text, "fake_crash"):
		return 139
	case strings.Contains(text, "fake_waits"):
		fakeLog(waits, "")
		fakeAwait(killed)
		os.Remove(waits)
		return 0
	case strings.Contains(text, "fake_killed_once") && fileExists(killed):
		return map[bool]int{true: 1, false: 0}[fileExists(waits)]
	case strings.Contains(text, "fake_killed_once"):
		fakeAwait(waits)
	case !strings.Contains(text, "fake_killed"):
		return 0
	}
	fakeLog(killed, "")
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	tooltest.Hang()
	return 0
}

// fakeAwait waits for a file, or a minute.
func fakeAwait(file string) {
	for try := 0; try < 60_000 && !fileExists(file); try++ {
		time.Sleep(time.Millisecond)
	}
}

func splitPTXAS(args []string) int {
	o, input := fakeOptions(args)
	text, err := os.ReadFile(input)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "ptxas fatal   : Input file '%s' could not be opened\n", input)
		return 255
	case strings.Contains(string(text), "fake_shared"):
		fmt.Fprintln(os.Stderr, "ptxas error   : Entry function '_Z1kPi' uses too much shared data (0x13880 bytes, 0xc000 max)")
		return 255
	case strings.Contains(string(text), "fake_unknown"):
		fmt.Fprintln(os.Stderr, "ptxas fatal   : What nobody has seen before")
		return 255
	}
	if os.WriteFile(o["-o"], append([]byte("CUBIN "+o["-arch"]+"\n"), text...), 0o666) != nil {
		return 1
	}
	return 0
}

func splitCudafe(args []string) int {
	o, input := fakeOptions(args)
	out := ""
	for _, l := range textLines(input) {
		if l.text != "" && !isDevice(l.text) {
			out += fmt.Sprintf("# %d %q\n%s\n", l.line, l.file, l.text)
		}
	}
	out += fmt.Sprintf("#include %q\n", o["--stub_file_name"])
	if os.WriteFile(o["--gen_c_file_name"], []byte(out), 0o666) != nil {
		return 1
	}
	return 0
}

// splitFatbinary packs images, and writes the C text of the form that it has in an object.
func splitFatbinary(args []string) int {
	var entries []byte
	var create, text string
	for _, arg := range args {
		if f, ok := strings.CutPrefix(arg, "--create="); ok {
			create = f
		} else if f, ok := strings.CutPrefix(arg, "--embedded-fatbin="); ok {
			text = f
		}
		spec, ok := strings.CutPrefix(arg, "--image3=kind=")
		if !ok {
			continue
		}
		kind, rest, _ := strings.Cut(spec, ",sm=")
		sm, file, _ := strings.Cut(rest, ",file=")
		n, _ := strconv.Atoi(sm)
		content, err := os.ReadFile(file)
		if err != nil {
			return 1
		}
		entries = append(entries, devcode.Entry(map[string]uint16{"ptx": 1, "elf": 2}[kind], n, content)...)
	}
	if create != "" && os.WriteFile(create, devcode.Container(entries), 0o666) != nil {
		return 1
	}
	var words strings.Builder
	for i, b := range devcode.Container(entries) {
		fmt.Fprintf(&words, "%s%d", map[bool]string{true: ",", false: ""}[i > 0], b)
	}
	form := `asm(".section .nv_fatbin, \"a\"\n.align 8\nfatbinData:\n.byte ` + words.String() + `\n.align 8\n.text\n");` + "\n" +
		`extern "C" { extern const unsigned long long fatbinData[]; }` + "\n" + `__attribute__((used)) static const void *fatbin_at = fatbinData;` + "\n"
	if text != "" && os.WriteFile(text, []byte(form), 0o666) != nil {
		return 1
	}
	return 0
}
