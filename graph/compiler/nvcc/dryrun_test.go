package nvcc

import (
	"os"
	"strings"
	"testing"
)

// TestStepsThatWriteNothing changes a recorded answer: a step without an output that is known means that nvcc runs as one command.
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
