package cache

import "testing"

func TestSuspect(t *testing.T) {
	fields := []Field{{"argv", "cc"}}
	for name, want := range map[string]bool{"/proc/kmsg": true, "/usr/../proc/kmsg": true, "/dev/zero": true, "/sys/kernel/x": true, "proc/a.h": false, "/procedures/a.h": false, "a.h": false} {
		r := &Record{Command: KeyOf(fields), Fields: fields, Discovered: []FileDigest{{Path: name}}}
		if r.Suspect() != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if r := (&Record{Command: Key{1}, Fields: fields}); !r.Suspect() {
		t.Error("a record of another key is believed")
	}
}
