// Package toolkit installs a CUDA toolkit that a manifest pins: NVIDIA's wheels, fetched and
// checked by pip, in a folder named after their content. It knows wheels and folders, and nothing
// of what a toolkit does.
package toolkit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// The lock file stands beside the manifest, and under version control. It names every wheel with
// its digest, for each kind of machine, so that a toolkit is the same wherever it is installed,
// today and later. Its bytes depend on nothing else: no index, no time, no user.

// Wheel is one file of PyPI.
type Wheel struct {
	Machine string // "x86_64", "aarch64"
	Name    string
	Version string
	SHA256  string
}

func (w Wheel) line() string {
	return fmt.Sprintf("%s %s==%s sha256:%s", w.Machine, w.Name, w.Version, w.SHA256)
}

// lock is what a lock file says.
type lock struct {
	requirement string // what pip was asked for
	wheels      []Wheel
}

const (
	head   = "# The CUDA toolkit of the manifest. Written by `kbuild toolkit lock`; keep it under version control."
	format = "format 1"
)

// machines are those that NVIDIA makes wheels of the toolkit for.
var machines = []string{"x86_64", "aarch64"}

// thisMachine is what wheels call the machine that kbuild runs on.
func thisMachine() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}

// text is the content of the file.
func (l *lock) text() string {
	lines := []string{head, format, "toolkit " + l.requirement}
	for _, w := range l.wheels {
		lines = append(lines, w.line())
	}
	return strings.Join(lines, "\n") + "\n"
}

var wheelRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(x86_64|aarch64) ([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+) sha256:([0-9a-f]{64})$`)
})

var conflictRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(<{7}|>{7}|\|{7}|={7})( |$)`) })

// parse reads the content of a lock file. The error names the line.
func parse(text string) (*lock, error) {
	l := &lock{}
	formatted := false
	for i, line := range strings.Split(text, "\n") {
		bad := func(why string) error { return fmt.Errorf("line %d: %s", i+1, why) }
		requirement, isToolkit := strings.CutPrefix(line, "toolkit ")
		m := wheelRE().FindStringSubmatch(line)
		switch {
		case strings.HasSuffix(line, "\r"):
			return nil, bad("it ends in CR and LF: something has changed the line ends that kbuild wrote (git does with core.autocrlf; `*.lock -text` in .gitattributes forbids it)")
		case conflictRE().MatchString(line):
			return nil, bad("a conflict that git has left")
		case line == "" || strings.HasPrefix(line, "#"):
		case line == format:
			formatted = true
		case !formatted:
			return nil, bad("this kbuild reads `" + format + "`, and this is another")
		case isToolkit && l.requirement == "":
			l.requirement = requirement
		case m != nil:
			l.wheels = append(l.wheels, Wheel{m[1], m[2], m[3], m[4]})
		default:
			return nil, bad(fmt.Sprintf("%.80q is no wheel", line))
		}
	}
	if l.requirement == "" {
		return nil, fmt.Errorf("it names no toolkit")
	}
	return l, nil
}

// of are the wheels for a machine.
func (l *lock) of(machine string) (wheels []Wheel) {
	for _, w := range l.wheels {
		if w.Machine == machine {
			wheels = append(wheels, w)
		}
	}
	return wheels
}

// folder is the name of the folder for wheels. It depends on their content alone.
func folder(wheels []Wheel) string {
	var sums []string
	for _, w := range wheels {
		sums = append(sums, w.SHA256)
	}
	slices.Sort(sums)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(sums), "\n")))
	return hex.EncodeToString(sum[:16])
}

// parts are the extras of the package cuda-toolkit that a compiler consists of. All are named:
// nvcc's wheel asks for the others in whatever version, and cuda-toolkit 13.0 pins by the extra
// nvcc nvcc alone.
var parts = []string{"cccl", "crt", "cudart", "nvcc", "nvvm"}

// oneRelease are the wheels that must be of the release of nvcc. CCCL has version numbers of its
// own.
var oneRelease = []string{"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime"}

// requirement is what pip is asked for.
func requirement(version string, more []string) string {
	all := slices.Concat(parts, more)
	slices.Sort(all)
	return fmt.Sprintf("cuda-toolkit[%s]==%s", strings.Join(slices.Compact(all), ","), version)
}

// check says why wheels for one machine are no toolkit of a version: nvcc 13.0 with a cicc of 13.5
// makes PTX without a word.
func check(wheels []Wheel, version string) error {
	numbers := strings.SplitN(version, ".", 3)
	release := numbers[0] + "." + numbers[1]
	for _, name := range oneRelease {
		i := slices.IndexFunc(wheels, func(w Wheel) bool { return w.Name == name })
		if i < 0 {
			return fmt.Errorf("%s is not among what pip would install", name)
		}
		if v := wheels[i].Version; !strings.HasPrefix(v, release+".") {
			return fmt.Errorf("pip would install %s %s, which is not of CUDA %s", name, v, release)
		}
	}
	return nil
}
