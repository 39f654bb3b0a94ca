package probe

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCPU(t *testing.T) {
	const text = "processor\t: 0\nmodel name\t: lake\ncpu MHz\t\t: 1000.1\nflags\t\t: fpu avx\n\nprocessor\t: 1\nmodel name\t: lake\n"
	root := t.TempDir()
	of := func(text string) string {
		os.MkdirAll(filepath.Join(root, "proc"), 0o777)
		if err := os.WriteFile(filepath.Join(root, "proc/cpuinfo"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return CPU(root)
	}
	first := of(text)
	if of("processor\t: 0\nmodel name\t: lake\ncpu MHz\t\t: 2000.2\nflags\t\t: fpu avx\n\n") != first {
		t.Error("the same processor is another")
	}
	if of("processor\t: 0\nmodel name\t: lake\ncpu MHz\t\t: 1000.1\nflags\t\t: fpu\n\n") == first {
		t.Error("a processor without AVX is the same")
	}
}
