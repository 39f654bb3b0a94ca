package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// The fake toolchain behaves as measured of nvcc 11.8 where scripts look: it writes dependency
// files for all passes, leaves comments out of objects, reports missing headers as gcc does, and
// its device link prints nvlink's messages with status 0. Its objects are text: the architectures,
// the flags that change code, and the text of the source with its headers.

// fakeNVCC is nvcc.
func fakeNVCC() int {
	args := append(strings.Fields(os.Getenv("NVCC_PREPEND_FLAGS")), os.Args[1:]...)
	args = append(args, strings.Fields(os.Getenv("NVCC_APPEND_FLAGS"))...)
	f := parseFake(args)
	switch {
	case f.has["--version"]:
		fmt.Println("Cuda compilation tools, release 11.8, V11.8.89")
	case f.has["--list-gpu-code"]:
		fmt.Println("sm_70\nsm_75\nsm_80\nsm_86\nsm_90")
	case f.has["--help"]: // 11.8 names no code with a suffix
	case splitToolkit():
		return splitNVCC(args)
	case f.has["--dryrun"]:
		exe, _ := os.Executable()
		fmt.Printf("#$ _HERE_=%[1]s\n#$ PATH=%[1]s:%[2]s\n#$ LIBRARIES=\n#$ NVVMIR_LIBRARY_DIR=%[1]s/../libdevice\n", filepath.Dir(exe), os.Getenv("PATH"))
		switch {
		case f.has["-dlink"]:
			fmt.Printf("#$ nvlink \"%s\" -o \"%s\"\n", strings.Join(f.inputs, `" "`), f.out)
		case f.out != "":
			fmt.Printf("#$ g++ -E -x c++ \"-I%s\" \"%s\" -o \"%s.ii\"\n", strings.Join(f.includes, `" "-I`), f.inputs[len(f.inputs)-1], f.out)
		}
	case f.has["-dlink"]:
		return fakeDeviceLink(f)
	default:
		return fakeCompile(f)
	}
	return 0
}

// fakeCXX is g++ and gcc.
func fakeCXX() int {
	f := parseFake(os.Args[1:])
	switch {
	case f.has["-dumpfullversion"]:
		fmt.Println("11.3.0")
	case f.has["-print-search-dirs"]:
		fmt.Println("install: /\nprograms: =\nlibraries: =")
	case f.has["-v"] && f.has["/dev/null"]:
		fakeSearch(f)
	case f.has["-###"]:
		fmt.Println("cc1plus -march=" + os.Getenv("FAKE_CPU"))
	case f.has["-c"], f.has["-E"]:
		return fakeCompile(f)
	case f.out != "":
		return fakeJoin(f.out, "LINKED", f.inputs)
	}
	return 0
}

// fakeSearch tells where includes are searched, as gcc does.
func fakeSearch(f fakeArgs) {
	for _, d := range f.includes {
		if !fileExists(d) {
			fmt.Fprintf(os.Stderr, "ignoring nonexistent directory \"%s\"\n", d)
		}
	}
	fmt.Fprintln(os.Stderr, "#include \"...\" search starts here:\n#include <...> search starts here:")
	for _, d := range f.includes {
		if fileExists(d) {
			fmt.Fprintln(os.Stderr, " "+d)
		}
	}
	fmt.Fprintln(os.Stderr, "End of search list.")
}

// fakeAR is ar qcsD OUT MEMBERS.
func fakeAR() int { return fakeJoin(os.Args[2], "ARCHIVE", os.Args[3:]) }

type fakeArgs struct {
	out, depfile string
	includes     []string
	codes        []string
	flags        []string // that change code
	inputs       []string
	has          map[string]bool
	keepDir      string
}

func parseFake(args []string) fakeArgs {
	f := fakeArgs{has: map[string]bool{}}
	for i := 0; i < len(args); i++ {
		a := args[i]
		f.has[a] = true
		switch {
		case a == "-o":
			i++
			f.out = args[i]
		case a == "-MF":
			i++
			f.depfile = args[i]
		case a == "--keep-dir":
			i++
			f.keepDir = args[i]
		case a == "-gencode":
			i++
			_, code, _ := strings.Cut(args[i], "code=")
			f.codes = append(f.codes, code)
		case a == "-Xcompiler" && strings.HasPrefix(args[i+1], "-I"):
		case a == "-ccbin" || a == "-x" || strings.HasPrefix(a, "-X"):
			i++
		case strings.HasPrefix(a, "-I"):
			f.includes = append(f.includes, a[2:])
		case strings.HasPrefix(a, "-D") || strings.HasPrefix(a, "-O") || a == "-use_fast_math":
			f.flags = append(f.flags, a)
		case !strings.HasPrefix(a, "-"):
			f.inputs = append(f.inputs, a)
		}
	}
	f.includes = slices.DeleteFunc(append(f.includes, filepath.SplitList(os.Getenv("CPATH"))...), func(d string) bool { return d == "" })
	return f
}

var includeRE = regexp.MustCompile(`^\s*#include "([^"]+)"`)

// fakeCompile writes an object and a dependency file. A source may say: #include "x", #warning,
// #error,
// #kill (ends by SIGKILL), #hang FILE (makes the file and never ends), #touch FILE (writes to it), #flood N (so many warnings).
func fakeCompile(f fakeArgs) int {
	src := f.inputs[len(f.inputs)-1]
	deps := map[string]bool{}
	text, status := fakeRead(f, src, src, deps)
	if status != 0 {
		return status
	}
	if f.depfile != "" {
		var names []string
		for d := range deps {
			names = append(names, strings.ReplaceAll(d, " ", `\ `))
		}
		sort.Strings(names)
		os.WriteFile(f.depfile, []byte(f.out+" : "+strings.Join(names, " \\\n    ")+"\n"), 0o666)
	}
	out := fmt.Sprintf("OBJECT %s %s\n%s", strings.Join(f.codes, ","), strings.Join(f.flags, " "), text)
	if err := f.writeCompiled(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func fakeRead(f fakeArgs, name, from string, deps map[string]bool) (string, int) {
	text, err := os.ReadFile(name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cc1plus: fatal error: %s: No such file or directory\n", name)
		return "", 1
	}
	deps[name] = true
	var out strings.Builder
	for n, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "//")
		directive, rest, _ := strings.Cut(line, " ")
		switch directive {
		case "#warning":
			fmt.Fprintf(os.Stderr, "%s:%d:2: warning: #warning %s\n", name, n+1, rest)
		case "#flood":
			lines, _ := strconv.Atoi(rest)
			for i := range lines {
				fmt.Fprintf(os.Stderr, "%s:%d:2: warning: this is warning %d of many, each of a hundred bytes, so that they are many bytes\n", name, n+1, i+1)
			}
		case "#error":
			fmt.Fprintf(os.Stderr, "%s:%d:2: error: #error %s\n", name, n+1, rest)
			return "", 1
		case "#hang":
			os.WriteFile(rest, nil, 0o666)
			tooltest.Hang()
		case "#touch":
			os.WriteFile(rest, []byte("changed while compiling\n"), 0o666)
		case "#kill":
			p, _ := os.FindProcess(os.Getpid())
			p.Kill()
			tooltest.Hang()
		}
		if m := includeRE.FindStringSubmatch(line); m != nil {
			inner := ""
			for _, dir := range append([]string{filepath.Dir(name)}, f.includes...) {
				if p := filepath.Join(dir, m[1]); fileExists(p) && !fileExists(p+"/.") { // no folder
					inner = p
					break
				}
			}
			if inner == "" {
				fmt.Fprintf(os.Stderr, "%s:%d:10: fatal error: %s: No such file or directory\n", name, n+1, m[1])
				return "", 1
			}
			text, status := fakeRead(f, inner, name, deps)
			if status != 0 {
				return "", status
			}
			line = text
		}
		if strings.TrimSpace(line) != "" {
			out.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return out.String(), 0
}

func fileExists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// fakeDeviceLink prints what nvlink prints, and ends with status 0 as it does.
func fakeDeviceLink(f fakeArgs) int {
	if want, err := os.ReadFile("links"); err == nil && !fakeMeeting(strings.TrimSpace(string(want))) {
		fmt.Fprintf(os.Stderr, "this link does not run %s\n", want)
		return 1
	}
	for _, code := range f.codes {
		for _, in := range f.inputs {
			text, err := os.ReadFile(in)
			if err != nil {
				fmt.Fprintf(os.Stderr, "nvlink fatal   : Could not open input file '%s' (target: %s)\n", in, code)
				return 1
			}
			arch := strings.TrimPrefix(code, "sm_")
			switch {
			case !strings.Contains(string(text), "lto_") && f.has["-dlto"]:
				fmt.Fprintf(os.Stderr, "nvlink info    : requested LTO but '%s' not built for LTO so doing partial LTO (target: %s)\n", in, code)
			case strings.Contains(string(text), "DROP_"+arch):
				fmt.Fprintf(os.Stderr, "nvlink warning : SM Arch ('%s') not found in '%s'\n", code, in)
			}
		}
	}
	if f.has["-cubin"] {
		if status := fakeUndefined(f); status != 0 {
			return status
		}
	}
	return fakeJoin(f.out, "DLINK "+strings.Join(f.codes, ","), f.inputs)
}

var (
	fakeWants = regexp.MustCompile(`(?m)^extern __device__ \w+ (\w+)\(`)
	fakeHas   = regexp.MustCompile(`(?m)^__device__ \w+ (\w+)\(`)
)

// fakeUndefined is nvlink where a function is wanted that no input has. An input without a kernel,
// of which no PTX takes an address, is not looked at: nvlink drops it with what it wants.
func fakeUndefined(f fakeArgs) int {
	has, status := map[string]bool{}, 0
	var all strings.Builder
	for _, in := range f.inputs {
		text, _ := os.ReadFile(in)
		all.Write(text)
	}
	for _, m := range fakeHas.FindAllStringSubmatch(all.String(), -1) {
		has[m[1]] = true
	}
	for _, in := range f.inputs {
		text, _ := os.ReadFile(in)
		if !fakeReached(string(text), all.String()) {
			continue
		}
		for _, m := range fakeWants.FindAllStringSubmatch(string(text), -1) {
			if !has[m[1]] {
				fmt.Fprintf(os.Stderr, "nvlink error   : Undefined reference to '%s' in 'lto.cubin' (target: %s)\n", m[1], f.codes[0])
				status = 255
			}
		}
	}
	return status
}

func fakeReached(text, all string) bool {
	return strings.Contains(text, "__global__") || slices.ContainsFunc(fakeHas.FindAllStringSubmatch(text, -1), func(m []string) bool {
		return strings.Contains(all, "mov.u64 %at, "+m[1]+";")
	})
}

// fakeMeeting says whether a link runs "together" with another one, which it waits for, or "alone",
// for which it looks around for a while.
func fakeMeeting(want string) bool {
	me, err := os.CreateTemp(".", "link-runs-")
	if err != nil {
		return false
	}
	tries := 100
	if want == "together" {
		tries = 3_600_000 // an hour: no build is to fail because the machine is busy
	}
	for range tries {
		if met, _ := filepath.Glob("link-runs-*"); len(met) > 1 {
			return want == "together" // and the file stays: the other one may not have looked yet
		}
		time.Sleep(time.Millisecond)
	}
	os.Remove(me.Name())
	return want == "alone"
}

func fakeJoin(out, head string, inputs []string) int {
	var b strings.Builder
	b.WriteString(head + "\n")
	for _, in := range inputs {
		text, err := os.ReadFile(in)
		if err != nil {
			if strings.HasPrefix(in, "@") {
				continue
			}
			fmt.Fprintf(os.Stderr, "ld: cannot find %s\n", in)
			return 1
		}
		b.Write(text)
	}
	if err := os.WriteFile(out, []byte(b.String()), 0o777); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
