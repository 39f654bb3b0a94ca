package engine

import "testing"

func TestFilesOfTheKernel(t *testing.T) {
	for name, want := range map[string]bool{"/proc/kmsg": true, "/usr/../proc/kmsg": true, "/dev/zero": true, "/sys/kernel/x": true, "proc/a.h": false, "/procedures/a.h": false, "a.h": false} {
		if ofKernel(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
