package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var tortureFaults = flag.Bool("torture.faults", false, "put each fault of testdata/torture into a copy of kbuild, and have TestTorture find it")

// faultSteps is how many steps there are to find a fault in.
const faultSteps = 5000

// TestTortureFaults holds TestTorture to what it is for: it finds mistakes. Each file of
// testdata/torture is one, as a text of a source and what is put in its place; the go command
// builds with that, and no file is changed.
func TestTortureFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/torture/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("there are %d faults: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			overlay := faultOverlay(t, file)
			if !*tortureFaults {
				return // the fault has its place still
			}
			cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-timeout", "0", "-run", "^TestTorture$", "-v", ".", "-args",
				fmt.Sprintf("-torture.n=%d", faultSteps), fmt.Sprintf("-torture.seed=%d", *tortureSeed))
			cmd.Env = append(os.Environ(), "PATH="+withoutFakes(os.Getenv("PATH")))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "a difference after") {
				t.Fatalf("%s is not found in %d steps: %v\n%s", file, faultSteps, err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// faultOverlay has the go command read a source with the fault in it.
func faultOverlay(t *testing.T, name string) string {
	t.Helper()
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	part := map[string]string{}
	for _, f := range ar.Files {
		part[f.Name] = string(f.Data)
	}
	source, err := filepath.Abs(filepath.Join("../..", strings.TrimSpace(part["file"])))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), part["from"]); n != 1 || part["from"] == "" {
		t.Fatalf("%s: the text that it replaces is %d times in %s: say anew where the fault is", name, n, source)
	}
	dir := t.TempDir()
	faulty, overlay := filepath.Join(dir, "faulty.go"), filepath.Join(dir, "overlay.json")
	write(t, faulty, strings.Replace(string(text), part["from"], part["to"], 1))
	listed, err := json.Marshal(map[string]map[string]string{"Replace": {source: faulty}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, string(listed))
	return overlay
}
