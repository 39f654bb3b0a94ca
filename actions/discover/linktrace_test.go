package discover

import (
	"slices"
	"testing"
)

func TestParseLinkTrace(t *testing.T) {
	const bar = "==================================================\n"
	text := "GNU ld (GNU Binutils for Debian) 2.40\n  Supported emulations:\n   elf_x86_64\nusing internal linker script:\n" + bar +
		"attempt to open in_a_script failed\n\n" + bar + `/usr/bin/ld: mode elf_x86_64
attempt to open l1/liba b.so failed
attempt to open l2/liba b.so succeeded
opened script file l2/liba b.so
l2/liba b.so
cannot find script file more.ld
opened script file l2/more.ld
l2/../member.o
(l2/libx.a)inner.o
libm.so.6 needed by l2/liby.so
found libm.so.6 at /lib/libm.so.6
Discarded input sections
`
	got := parseLinkTrace([]byte(text), func(name string) bool { return name == "l2/../member.o" || name == "l2/liba b.so" })
	if want := []string{"l2/liba b.so", "l2/more.ld", "l2/../member.o", "/lib/libm.so.6"}; !slices.Equal(got.Read, want) || !got.Complete {
		t.Errorf("read %q, want %q; complete is %v", got.Read, want, got.Complete)
	}
	if want := []string{"l1/liba b.so", "more.ld"}; !slices.Equal(got.Missing, want) {
		t.Errorf("missing %q, want %q", got.Missing, want)
	}
	if want := "(l2/libx.a)inner.o\nDiscarded input sections\n"; string(got.Rest) != want {
		t.Errorf("the rest is %q, want %q", got.Rest, want)
	}
	if !got.Needs {
		t.Error("it looked for what a library needs")
	}
	for printed, want := range map[string]bool{
		"libm.so.6 needed by a.so\nfound libm.so.6 at /lib/libm.so.6\n":                      false, // it has that one already
		"x.so needed by a.so\nfound x.so at /lib/x.so\n":                                     true,
		"x.so needed by a.so\nlibm.so.6 needed by a.so\nfound libm.so.6 at /lib/libm.so.6\n": true,
		"x.so needed by a.so\n": true,
	} {
		text := "GNU ld 2.40\n" + bar + bar + "attempt to open /lib/libm.so.6 succeeded\n" + printed
		if got := parseLinkTrace([]byte(text), func(string) bool { return false }); got.Needs != want {
			t.Errorf("%q: needs is %v", printed, got.Needs)
		}
	}
	for _, other := range []string{"", "LLD 15.0.6\nattempt to open x failed\n", "GNU ld 2.40\nattempt to open x failed\n"} {
		if got := parseLinkTrace([]byte(other), func(string) bool { return false }); got.Complete || len(got.Missing) > 0 {
			t.Errorf("%q is a trace: %+v", other, got)
		}
	}
}
