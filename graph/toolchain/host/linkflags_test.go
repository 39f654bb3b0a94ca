package host

import "testing"

func TestHidesReferences(t *testing.T) {
	for _, tt := range []struct {
		flags    []string
		keeps    bool // everything
		stripped bool // with strip_unused as well
	}{
		{flags: nil},
		{flags: []string{"-s", "-O2", "-pthread", "-fuse-ld=gold", "-static-libstdc++", "-Wl,--as-needed,-z,now,-rpath,/opt/lib", "-Xlinker", "--gc-sections"}},
		{flags: []string{"-rdynamic"}, keeps: true},
		{flags: []string{"-Wl,-z,now,--export-dynamic"}, keeps: true},
		{flags: []string{"-Wl,--dynamic-list=api"}, keeps: true},
		{flags: []string{"table.o"}, keeps: true, stripped: true},
		{flags: []string{"-lvendor"}, keeps: true, stripped: true},
		{flags: []string{"@options"}, keeps: true, stripped: true},
		{flags: []string{"-Wl,--defsym=a=_Z1kPi"}, keeps: true, stripped: true},
		{flags: []string{"-u", "_Z1kPi"}, keeps: true, stripped: true},
		{flags: []string{"-specs=x"}, keeps: true, stripped: true},
		{flags: []string{"-static"}, keeps: true, stripped: true},
		{flags: []string{"-flto"}, keeps: true, stripped: true},
	} {
		if got := HidesReferences(tt.flags, false) != ""; got != tt.keeps {
			t.Errorf("%q keeps everything: %t", tt.flags, got)
		}
		if got := HidesReferences(tt.flags, true) != ""; got != tt.stripped {
			t.Errorf("%q keeps everything with strip_unused: %t", tt.flags, got)
		}
	}
}
