// Package toolkit installs the CUDA toolkit that a manifest pins: NVIDIA's wheels, fetched and
// verified by pip, in a folder named after their content. It knows wheels and folders, and nothing
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

// The lock file is beside the manifest, under version control. It names every wheel with its
// digest, for each kind of machine, so that a toolkit is the same wherever and whenever it is
// installed. Its bytes depend on nothing else: no index, no time, no user.

// Wheel is a wheel file on PyPI.
type Wheel struct {
	Machine string // "x86_64", "aarch64"
	Name    string
	Version string
	SHA256  string
}

func (w Wheel) line() string {
	return fmt.Sprintf("%s %s==%s sha256:%s", w.Machine, w.Name, w.Version, w.SHA256)
}

// lock is the parsed content of a lock file.
type lock struct {
	requirement string // the requirement for pip
	wheels      []Wheel
}

const (
	head   = "# The CUDA toolkit of the manifest. Written by `kbuild toolkit lock`; keep it under version control."
	format = "format 1"
)

// machines are those for which NVIDIA publishes wheels of the toolkit.
var machines = []string{"x86_64", "aarch64"}

// thisMachine returns the name that wheels use for the local machine.
func thisMachine() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}

// text returns the content of the lock file.
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

// parse parses the content of a lock file. The error names the line.
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

// of returns the wheels for a machine.
func (l *lock) of(machine string) (wheels []Wheel) {
	for _, w := range l.wheels {
		if w.Machine == machine {
			wheels = append(wheels, w)
		}
	}
	return wheels
}

// folder returns the folder name for wheels. It depends only on their content.
func folder(wheels []Wheel) string {
	var sums []string
	for _, w := range wheels {
		sums = append(sums, w.SHA256)
	}
	slices.Sort(sums)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(sums), "\n")))
	return hex.EncodeToString(sum[:16])
}

// parts are the extras of the package cuda-toolkit that a compiler needs. All are named: nvcc's
// wheel requires the others in any version, and the extra nvcc of cuda-toolkit 13.0 pins only nvcc.
var parts = []string{"cccl", "crt", "cudart", "nvcc", "nvvm"}

// oneRelease are the wheels that must have the release of nvcc. CCCL has version numbers of its
// own.
var oneRelease = []string{"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-runtime"}

// requirement returns the requirement for pip.
func requirement(version string, more []string) string {
	all := slices.Concat(parts, more)
	slices.Sort(all)
	return fmt.Sprintf("cuda-toolkit[%s]==%s", strings.Join(slices.Compact(all), ","), version)
}

// check returns why wheels for one machine are not a toolkit of a version. nvcc 13.0 with a cicc of
// 13.5 generates PTX without a warning.
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
