package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// TestTorture makes random edits to random projects and builds after each, by whatever way kbuild
// goes. What it made is held against a clean build of the same tree in another folder, without a
// cache: the exit status, and every output, byte for byte. Then there must be nothing to do.
//
// The compilers pretend (cmd/internal/pretend), so that a step costs a tenth of a second and what
// they make tells of all that they were given; -torture.real takes the real ones. A sequence that
// ends with a difference is shrunk to the steps that it takes, and printed as steps that a person
// can follow.
//
// A run is one seed: a project and some edits. -torture.seed makes the same again; make torture
// says how (docs/design.md).
var (
	tortureSteps = flag.Int("torture.n", map[bool]int{false: 100, true: 200}[tooltest.All()], "random edits, each with a build and a clean build to hold it against")
	tortureSeed  = flag.Uint64("torture.seed", 1, "the first seed")
	tortureReal  = flag.Bool("torture.real", false, "run the real compilers on a small project")
)

// stepsOfSeed is how many edits a project sees.
const stepsOfSeed = 20

func TestTorture(t *testing.T) {
	n := *tortureSteps
	if testing.Short() {
		n = min(n, stepsOfSeed)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800))         // a build in this process leaves buffers behind
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30)) // and what pools keep until the next collection must not add up
	tools := tortureTools(t)
	done, builds, good, seed := 0, 0, 0, *tortureSeed
	var shares []int // of good builds, in percent, by seed
	for ; done < n; seed++ {
		h := newTorture(t, tools)
		made, oks, fault := h.seed(seed, min(stepsOfSeed, n-done))
		done, builds, good, shares = done+len(made)-1, builds+len(made), good+oks, append(shares, 100*oks/len(made))
		if testing.Verbose() && done%(50*stepsOfSeed) == 0 {
			fmt.Printf("torture: %d steps, no difference\n", done)
		}
		if fault != "" {
			h.tell(seed, made, fault, done)
			return
		}
		h.remove()
		if len(shares)%20 == 0 {
			tools.forget()
		}
	}
	slices.Sort(shares)
	t.Logf("seeds %d to %d, %d steps: no difference. %d of %d builds ended well, of a seed between %d%% and %d%%, in the middle %d%%",
		*tortureSeed, seed-1, done, good, builds, shares[0], shares[len(shares)-1], shares[len(shares)/2])
	if good < builds/2 || n >= 200 && good == builds {
		t.Errorf("of %d builds %d were good: that proves little", builds, good)
	}
}

// torture is a project under edits.
type torture struct {
	t     *testing.T
	tools *toolset
	base  string // holds all below it
	dir   string // of the project
	rng   *rand.Rand

	hcl   map[string]map[string]string // attributes, as HCL has them, by target
	env   map[string]string
	args  []string // of every build
	built int
	raced bool // two kbuilds have just built what is there now

	damaged map[string]bool // outputs that an edit has written to
	cleaned map[[sha256.Size]byte]result
	well    state  // the project when a build last ended well
	since   []step // what was done to it since then
}

// result is what a clean build came to.
type result struct {
	status  int
	made    map[string]artifact
	printed string
}

func newTorture(t *testing.T, tools *toolset) *torture {
	base := filepath.Join(tools.base, "run")
	h := &torture{t: t, tools: tools, base: base, dir: filepath.Join(base, "project")}
	h.begin()
	return h
}

// remove leaves nothing to the next one.
func (h *torture) remove() {
	h.forgetEnv()
	os.RemoveAll(h.base)
}

func (h *torture) forgetEnv() {
	for name := range h.env {
		os.Unsetenv(name)
	}
	h.env = map[string]string{}
}

// begin empties everything.
func (h *torture) begin() {
	os.RemoveAll(h.base)
	h.hcl, h.args, h.built, h.damaged = map[string]map[string]string{}, nil, 0, map[string]bool{}
	h.cleaned, h.well, h.since = map[[sha256.Size]byte]result{}, state{}, nil
	h.forgetEnv()
	if err := os.MkdirAll(h.dir, 0o777); err != nil {
		h.t.Fatal(err)
	}
	h.tools.reset()
	cache := filepath.Join(h.base, "cache")
	os.Mkdir(cache, 0o777)
	os.Symlink(h.tools.asked, filepath.Join(cache, "tools"))
	os.Setenv("KBUILD_CACHE_DIR", cache)
}

// step is some edits, after which kbuild builds.
type step []edit

// seed makes a project and steps until there is a difference. It gives what it has made, and in how
// many cases the build ended well.
func (h *torture) seed(seed uint64, n int) (made []step, good int, fault string) {
	h.rng = rand.New(rand.NewPCG(seed, 13))
	for i := range n + 1 {
		var s step
		if i == 0 {
			s = h.project()
		} else {
			s = h.next()
		}
		made = append(made, s)
		status, fault := h.check()
		if fault != "" {
			return made, good, fault
		}
		if h.since = append(h.since, s); status == 0 {
			h.well, h.since = h.state(), nil
			good++
		}
	}
	return made, good, h.verify()
}

// replay takes steps again from the start.
func (h *torture) replay(steps []step) (fault string, at int) {
	h.begin()
	for i, s := range steps {
		for _, e := range s {
			h.apply(e)
		}
		if _, fault := h.check(); fault != "" {
			return fault, i
		}
	}
	return h.verify(), len(steps) - 1
}

// kbuild builds in this process.
func (h *torture) kbuild(dir string, args ...string) (status int, printed string) {
	var out bytes.Buffer
	status = Main(slices.Concat([]string{"-C", dir, "-k0", "--color=never", "--progress=plain"}, h.args, args), &out, &out)
	return status, out.String()
}

// check builds, and says in what the result differs from that of a clean build; "" if in nothing.
func (h *torture) check() (status int, fault string) {
	clean, want, printedClean := h.clean()
	if h.raced && clean == 0 {
		if fault := differences(madeIn(h.dir), want); fault != "" {
			return 0, "after two kbuilds at once " + fault
		}
	}
	h.raced = false
	status, printed := h.kbuild(h.dir)
	switch {
	case status != clean:
		return status, fmt.Sprintf("kbuild ends with %d:\n%s\nand a clean build with %d:\n%s", status, printed, clean, printedClean)
	case status != 0 && status != exitFailed && status != exitUsage:
		return status, fmt.Sprintf("kbuild ends with %d:\n%s", status, printed)
	}
	made := madeIn(h.dir)
	// The files of a module come of one command. If one pass of it fails, those of the passes that
	// had not begun stay as they were.
	for _, failed := range regexp.MustCompile(`(?m)^  target   module\.(\w+) `).FindAllStringSubmatch(printed+printedClean, -1) {
		want = maps.Clone(want)
		maps.DeleteFunc(want, func(name string, _ artifact) bool {
			return strings.HasPrefix(name, h.buildDir()+"/modules/"+failed[1]+".")
		})
	}
	fault = differences(made, want)
	if status == 0 {
		fault += h.leftovers(made, want)
	}
	if fault != "" {
		return status, fmt.Sprintf("%s\nkbuild said:\n%s", fault, printed)
	}

	again, printedAgain := h.kbuild(h.dir)
	profiles := h.hasFlag("-fprofile-use")                                                           // such compiles run each time
	if again != status || status == 0 && !profiles && strings.Contains(printedAgain, " actions: ") { // a manifest without targets is built without a word
		return status, fmt.Sprintf("the second build ends with %d:\n%s\nand the first with %d:\n%s", again, printedAgain, status, printed)
	}
	return status, ""
}

// clean builds a copy of the project without a cache, or knows what that came to: edits are undone,
// and many are none of what a build depends on. Asking the compilers is half of what it takes, so
// most clean builds remember the answers of others; the rest ask.
func (h *torture) clean() (status int, made map[string]artifact, printed string) {
	project := h.state()
	key := h.key(project)
	if r, ok := h.cleaned[key]; ok {
		return r.status, r.made, r.printed
	}
	dir := filepath.Join(h.base, "clean")
	if h.hasFlag("--coverage", "-gsplit", "-fstack-usage", "-fprofile-use") {
		// objects hold the name of the folder that they were compiled in
		aside := filepath.Join(h.base, "aside")
		dir = h.dir
		os.Rename(dir, aside)
		defer os.Rename(aside, dir)
	}
	defer os.RemoveAll(dir)
	h.copied(project, dir)
	if h.built++; h.built%20 != 0 {
		state := filepath.Join(dir, h.buildDir(), ".kbuild")
		os.MkdirAll(state, 0o777)
		os.Symlink(h.tools.memo, filepath.Join(state, "tools"))
	}
	status, printed = h.kbuild(dir, "--no-cache")
	made = madeIn(dir)
	h.cleaned[key] = result{status, made, printed}
	return status, made, printed
}

// hasFlag reports whether a target has one of some flags.
func (h *torture) hasFlag(flags ...string) bool {
	for _, attributes := range h.hcl {
		if slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(attributes["flags"], f) }) {
			return true
		}
	}
	return false
}

// buildDir is where the kbuild of today builds.
func (h *torture) buildDir() string {
	for i, a := range h.args {
		switch a {
		case "--build-dir":
			return h.args[i+1]
		case "--profile":
			return "build/" + h.args[i+1]
		}
	}
	return "build"
}

// buildTrees are the folders that kbuild is told to build in.
var buildTrees = []string{"build", "out"}

// artifact is a file that a build made.
type artifact struct {
	text string
	mode fs.FileMode // what of it counts: its kind, and whether it can be run
}

// madeIn are the files of the build trees that are not kbuild's own.
func madeIn(dir string) map[string]artifact {
	made := map[string]artifact{}
	for _, tree := range buildTrees {
		filepath.WalkDir(filepath.Join(dir, tree), func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil
			case d.IsDir() && d.Name() == ".kbuild":
				return fs.SkipDir
			case d.IsDir():
				return nil
			}
			info, err := d.Info()
			text, _ := os.ReadFile(name)
			if rel, _ := filepath.Rel(dir, name); err == nil {
				made[rel] = artifact{string(text), info.Mode() & (fs.ModeType | 0o100)}
			}
			return nil
		})
	}
	return made
}

// differences says which outputs are not what a clean build makes.
func differences(got, want map[string]artifact) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch is, ok := got[name]; {
		case !ok:
			fmt.Fprintf(&b, "%s is not there; a clean build makes it\n", name)
		case is.mode != want[name].mode:
			fmt.Fprintf(&b, "%s has mode %v, in a clean build %v\n", name, is.mode, want[name].mode)
		case is.text != want[name].text:
			fmt.Fprintf(&b, "%s is not what a clean build makes: %s\n", name, firstDifference(is.text, want[name].text))
		}
	}
	return b.String()
}

// leftovers says which files of the build tree nothing makes any more. One that the test has
// damaged is not kbuild's to remove.
func (h *torture) leftovers(got, want map[string]artifact) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok && !h.damaged[name] && strings.HasPrefix(name, h.buildDir()+"/") {
			fmt.Fprintf(&b, "%s is there; a clean build does not make it\n", name)
		}
	}
	return b.String()
}

func firstDifference(got, want string) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	part := func(s string) string { return s[max(0, min(at, len(s))-20):min(len(s), at+40)] }
	return fmt.Sprintf("at byte %d it holds %q, there %q", at, part(got), part(want))
}

// verify looks at the cache when all is done.
func (h *torture) verify() string {
	var out strings.Builder
	if status := Main([]string{"-C", h.dir, "cache", "verify"}, &out, io.Discard); status != 0 || !strings.Contains(out.String(), " 0 broken") {
		return fmt.Sprintf("kbuild cache verify ends with %d:\n%s", status, &out)
	}
	return ""
}

// overtaken runs a kbuild and stops it before its nth change of a file; then a file is written, and
// a second kbuild started. The first one goes on when the second waits for it, or has ended. What
// stands then is what the second should have made.
func (h *torture) overtaken(e edit) {
	args := slices.Concat([]string{"-C", h.dir, "-k0", "-j1", "--progress=plain"}, h.args)
	first := exec.Command("paused", slices.Concat([]string{strconv.Itoa(e.n), "kbuild"}, args)...)
	goOn, err := first.StdinPipe()
	printed, err2 := first.StdoutPipe()
	if err := errors.Join(err, err2, first.Start()); err != nil {
		h.t.Fatal(err)
	}
	line, _ := bufio.NewReader(printed).ReadString('\n')
	h.apply(edit{kind: writeFileEdit, name: e.name, text: e.text})
	second := exec.Command("kbuild", args...)
	words, err := second.StderrPipe()
	if err := errors.Join(err, second.Start()); err != nil {
		h.t.Fatal(err)
	}
	lines := bufio.NewScanner(words)
	for lines.Scan() && !strings.Contains(lines.Text(), "waiting for another kbuild") {
	}
	goOn.Close()
	io.Copy(io.Discard, words)
	io.Copy(io.Discard, printed)
	first.Wait()
	h.raced = second.Wait() == nil && strings.TrimSpace(line) == pausedNow
}

// killed runs a kbuild of its own, and kills it with all its commands before its nth change of a
// file.
func (h *torture) killed(n int) {
	args := slices.Concat([]string{strconv.Itoa(n), "kbuild", "-C", h.dir, "-k0", "-j1"}, h.args)
	exec.Command("killed", args...).Run() // that it fails is what it is for
}
