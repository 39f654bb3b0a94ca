package nvcc

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStepsThatWriteNothing changes a recorded answer: a step without an output that is known means
// that nvcc runs as one command.
func TestStepsThatWriteNothing(t *testing.T) {
	text, err := os.ReadFile("testdata/13.5-ptx-check.txt")
	if err != nil {
		t.Fatal(err)
	}
	check := `ptxas -arch=compute_90 -m64  "kbuild_output" `
	for _, tt := range []struct{ name, from, to, fault string }{
		{name: "a check of what nobody makes", from: check, to: `ptxas -arch=compute_90 -m64 "other.ptx"`, fault: "ptxas for compute_90 writes nothing"},
		{name: "a check of another architecture's", from: check, to: `ptxas -arch=compute_80 -m64 "kbuild_output"`, fault: "ptxas for compute_80 writes nothing"},
		{name: "a cicc that writes nothing", from: `-o "kbuild_output"`, to: "", fault: "writes nothing"},
		{name: "a check twice", from: check, to: check + "\n#$ " + check, fault: "writes nothing"},
	} {
		if !strings.Contains(string(text), tt.from) {
			t.Fatalf("%s: the recording has no %s", tt.name, tt.from)
		}
		_, err := LearnCompile(strings.Replace(string(text), tt.from, tt.to, 1))
		if err == nil || !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: %v; want an error about %q", tt.name, err, tt.fault)
		}
	}
}

// TestThreads: with -t each step ends with where its output goes. Before 13.0 such a question is an
// error, so that it is not asked.
func TestThreads(t *testing.T) {
	text, err := os.ReadFile("testdata/13.5-c-three.txt")
	if err != nil {
		t.Fatal(err)
	}
	step := regexp.MustCompile(`(?m)^(#\$ [^A-Z_].*)$`)
	if got := describe(step.ReplaceAllString(string(text), "$1 > /tmp/x_stdout 2>/tmp/x_stderr ")); got != describe(string(text)) {
		t.Errorf("learned otherwise:\n%s", got)
	}
	if got := describe(strings.Replace(string(text), "ptxas -arch", "ptxas > x -arch", 1)); !strings.Contains(got, "the shell's '>'") {
		t.Errorf("another redirection:\n%s", got)
	}
	argv := strings.Fields("nvcc -c -t 2 --threads=3 -time t.csv -fdevice-time-trace=- -o a.o a.cu")
	if diff := cmp.Diff(strings.Fields("--dryrun --keep --keep-dir kbuild_keep -c -o kbuild_output kbuild_source.cu"), Query(argv, "a.cu", "a.o", "")); diff != "" {
		t.Errorf("the question (-want +got):\n%s", diff)
	}
	env := QueryEnviron([]string{"A=-t 2", "NVCC_APPEND_FLAGS=-t 2 -lineinfo", "NVCC_PREPEND_FLAGS=--time=x"})
	if diff := cmp.Diff([]string{"A=-t 2", "NVCC_APPEND_FLAGS=-lineinfo", "NVCC_PREPEND_FLAGS="}, env); diff != "" {
		t.Errorf("its environment (-want +got):\n%s", diff)
	}
}

// TestJobserver: whether processes share the processors by a jobserver is not in the command of a
// pass, and so not in its key.
func TestJobserver(t *testing.T) {
	for _, m := range modes(t) {
		if m.name != "option-jobserver" {
			continue
		}
		if passes, _ := learnedOf(t, m, m.text); strings.Contains(strings.Join(passes, ""), "jobserver") || !strings.Contains(m.text, " -jobserver") {
			t.Errorf("%s:\n%s", m.name, passes)
		}
	}
}
