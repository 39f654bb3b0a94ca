package fatbin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// The members come out in order, under their names, as the thin objects of what went in. Those
// without anything for nvlink do not: one plain object would switch the removal of unused kernels
// off.
func TestArchiveForLink(t *testing.T) {
	mixed, plain := testdata(t, "mixed.o"), testdata(t, "plain.o")
	in := []byte(arMagic)
	member := func(name string, content []byte) {
		in = appendMember(in, name+strings.Repeat(" ", 16-len(name))+"1700000000  1000  1000  100600  ", content)
	}
	member("/", []byte("index of host symbols"))
	member("//", []byte("a_long_name_of_a_member.o/\nsome/folder/b.o/\n"))
	member("m.o/", mixed)
	member("/0", mixed)
	member("m.o/", plain)
	member("/27", mixed)
	member("clang.o/", append(bitcodeMagic, 1, 2))
	member("größe.txt/", []byte("odd"))
	member("#1/20", append([]byte("a_name_of_bsd_ar.o\x00\x00"), mixed...))
	out, err := ArchiveForLink(in, code(t, "sm_90"))
	if err != nil {
		t.Fatal(err)
	}
	thin := func(object []byte) []byte {
		b, err := ForLink(object, code(t, "sm_90"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := []archiveMember{{"m.o", thin(mixed)}, {"a_long_name_of_a_member.o", thin(mixed)}, {"some/folder/b.o", thin(mixed)},
		{"größe.txt", []byte("odd")}, {"a_name_of_bsd_ar.o", thin(mixed)}}
	got, err := splitArchive(out)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d members, %v", len(got), err)
	}
	for i, w := range want {
		if got[i].name != w.name || !bytes.Equal(got[i].content, w.content) {
			t.Errorf("member %d is %s with %d bytes, want %s with %d", i, got[i].name, len(got[i].content), w.name, len(w.content))
		}
	}
	for _, host := range []string{"1700000000", "1000", "index of host symbols"} {
		if bytes.Contains(out, []byte(host)) {
			t.Errorf("the archive holds %q", host)
		}
	}
}

// Another reader finds the same in it.
func TestArchiveForLinkIsAnArchive(t *testing.T) {
	out, err := ArchiveForLink(testdata(t, "lib.a"), code(t, "sm_90"))
	if err != nil {
		t.Fatal(err)
	}
	want := "archive: a_member_with_a_rather_long_name.o(relocatable) sm_80; mixed.o(relocatable) lto_90 compute_90 sm_90"
	if got := codesOf(t, out); normalArchive(got) != normalArchive(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func normalArchive(s string) string {
	parts := strings.Split(s, "; ")
	for i := range parts {
		parts[i] = normal(parts[i])
	}
	return strings.Join(parts, "; ")
}

func TestArchiveForLinkErrors(t *testing.T) {
	lib := testdata(t, "lib.a")
	for want, archive := range map[string][]byte{
		"thin archive": []byte("!<thin>\n"), "no archive": testdata(t, "plain.o"), "damaged": lib[:len(lib)/2],
		"has no name": appendMember([]byte(arMagic), "/7", nil),
	} {
		if _, err := ArchiveForLink(archive, code(t, "sm_80")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzArchiveForLink: no bytes make it panic, and what it gives is its own thin archive.
func FuzzArchiveForLink(f *testing.F) {
	f.Add(testdata(f, "lib.a"))
	f.Add([]byte(arMagic))
	f.Fuzz(func(t *testing.T, archive []byte) {
		c := gencode.Code{Num: 80}
		out, err := ArchiveForLink(archive, c)
		if err != nil {
			return
		}
		again, err := ArchiveForLink(out, c)
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("made thin again: %d bytes, %d bytes, %v", len(out), len(again), err)
		}
	})
}
