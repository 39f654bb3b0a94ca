package probe

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGPUs(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(root, "bin")
	fingerprint := func() string { return GPUs(root, func(string) string { return path }) }
	seen := map[string]bool{"": true}
	different := func(what string) {
		t.Helper()
		if id := fingerprint(); seen[id] {
			t.Errorf("%s changes nothing", what)
		} else if id != fingerprint() {
			t.Errorf("%s: asked twice, two answers", what)
		} else {
			seen[id] = true
		}
	}
	const card = "proc/driver/nvidia/gpus/0000:01:00.0/information"
	write("bin/nvidia-smi", "")
	write("proc/driver/nvidia/version", "550.54.15")
	write("dev/nvidia0", "")
	if id := fingerprint(); id != "" {
		t.Error("known without a card")
	}
	write(card, "Model: A100\nGPU UUID: GPU-1\n")
	different("a card")
	write(card, "Model: H100\nGPU UUID: GPU-2\n")
	different("another card in its place")
	write("proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: A100\nGPU UUID: GPU-1\n")
	different("a second card")
	write("dev/nvidia1", "")
	different("a device that this container may open")
	write("proc/driver/nvidia/version", "560.1")
	different("another driver")
	write("bin/nvidia-smi", "another")
	different("another nvidia-smi")
	os.Remove(filepath.Join(root, "proc/driver/nvidia/version"))
	if id := fingerprint(); id != "" {
		t.Error("known without a driver")
	}
}
