package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// passProject is a library of sources that are a device function each, for one architecture.
func passProject(t *testing.T, flags string, functions map[string]string) *e2e.Project {
	files := map[string]string{}
	var sources []string
	for name, text := range functions {
		files[name] = text + "\nint " + strings.TrimSuffix(name, ".cu") + "_h() { return 1; }\n"
		sources = append(sources, `"`+name+`"`)
	}
	files["kernels.hcl"] = "library \"w\" {\n  sources = [" + strings.Join(sources, ", ") + "]\n  code    = [\"sm_80\"]\n" + flags + "}\n"
	return fakeSplit(t, files)
}

// verdictFile has what the build tree keeps of misparsed compilers.
func verdictFile(e *e2e.Project) string { return filepath.Join(e.Dir, "build/.kbuild/misparsed") }

func verdicts(e *e2e.Project) string {
	text, _ := os.ReadFile(verdictFile(e))
	return string(text)
}

func setVerdicts(e *e2e.Project, text string) {
	e.T.Helper()
	if err := os.WriteFile(verdictFile(e), []byte(text), 0o666); err != nil {
		e.T.Fatal(err)
	}
}

// failsWithout builds and gives what was said. Nothing was misparsed, and nvcc ran as one command
// plain times only.
func failsWithout(e *e2e.Project, plain int, args ...string) string {
	e.T.Helper()
	text, err := e.Command(append([]string{"kbuild", "--progress", "plain"}, args...)...).CombinedOutput()
	if err == nil || strings.Contains(string(text), "misparsed") || verdicts(e) != "" {
		e.T.Errorf("%v\n%s", err, text)
	}
	if ran, _ := os.ReadFile(filepath.Join(e.Dir, "nvcc-ran")); strings.Count(string(ran), "\n") != plain {
		e.T.Errorf("nvcc ran as one command, want %d times:\n%s", plain, ran)
	}
	return string(text)
}

// A pass that a signal ended, or that the tool itself rejects, is not taken for misparsed, and is
// not tried with nvcc as one command.
func TestFailedPass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		device, want string
		plain        int
	}{
		"killed":             {"__global__ void fake_killed() {}", "killed, most likely for memory", 0},
		"killed in a driver": {"__global__ void fake_kills_driver() {}", "killed, most likely for memory", 0},
		"crashed":            {"__global__ void fake_crash() {}", "exit status 139: something that it ran was ended by a signal", 0},
		"shared data":        {"__global__ void fake_shared() {}", "uses too much shared data", 0},
		"unknown words":      {"__global__ void fake_unknown() {}", "What nobody has seen before", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := passProject(t, "", map[string]string{"a.cu": c.device})
			if printed := failsWithout(e, c.plain, "-j1"); !strings.Contains(printed, c.want) {
				t.Errorf("it does not say %q:\n%s", c.want, printed)
			}
		})
	}
}

// What was killed for memory beside another command runs again when that one has ended.
func TestKilledBesideAnother(t *testing.T) {
	t.Parallel()
	e := passProject(t, "", map[string]string{
		"a.cu": "__global__ void fake_killed_once() {}",
		"b.cu": "__global__ void fake_waits() {}",
	})
	_, printed := e.Run("kbuild", "--progress", "plain", "-j4", "--mem", "1TiB")
	if !strings.Contains(printed, "kbuild: a.cu: it ran out of memory, and was built again with nothing else running") || strings.Contains(printed, "misparsed") {
		t.Error(printed)
	}
	if c := e.Kbuild(); c.Up_to_date != c.Actions {
		t.Errorf("again: %+v", c)
	}
	e.Write("a.cu", "__global__ void fake_killed() {}\n")
	if printed := failsWithout(e, 0, "-j4"); !strings.Contains(printed, "killed, most likely for memory") {
		t.Error(printed)
	}
}

// A verdict that nvcc is misparsed is told by why and doctor, and ends with kbuild, with the
// toolkit, and when it is removed.
func TestMisparseVerdict(t *testing.T) {
	t.Parallel()
	e := passProject(t, "  flags   = { nvcc = [\"-DMISREAD\"] }\n", map[string]string{"a.cu": "__global__ void k() {}"})
	printed := func() string {
		t.Helper()
		_, errs := e.Run("kbuild", "--progress", "plain")
		return errs
	}
	warned := func(what string, want bool) {
		t.Helper()
		if errs := printed(); strings.Contains(errs, "misparsed the dry run of nvcc") != want {
			t.Errorf("%s: warned is not %v:\n%s", what, want, errs)
		}
	}
	warned("first", true)
	warned("second", false)
	for _, argv := range [][]string{{"kbuild", "why"}, {"kbuild", "why", "w"}, {"kbuild", "doctor"}} {
		out, _ := e.Command(argv...).CombinedOutput() // doctor misses parts of this toolkit
		for _, want := range []string{"cicc a.cu (compute_80) failed", "--no-such-option", "or the build tree is cleaned"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v does not say %q:\n%s", argv, want, out)
			}
		}
	}
	setVerdicts(e, "")
	warned("removed", true)
	for _, field := range []string{"kbuild", "tools"} {
		var all []map[string]string
		if err := json.Unmarshal([]byte(verdicts(e)), &all); err != nil || len(all) != 1 || all[0][field] == "" {
			t.Fatalf("%v: %s", err, verdicts(e))
		}
		all[0][field] = "another"
		text, _ := json.Marshal(all)
		setVerdicts(e, string(text))
		warned("another "+field, true)
		warned("then", false)
	}
	setVerdicts(e, `["nvcc\n--dryrun\n"]`) // of a kbuild before there were verdicts
	warned("old", true)
}
