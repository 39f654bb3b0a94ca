package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

func code(t testing.TB, name string) gencode.Code {
	t.Helper()
	c, err := gencode.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func codesOf(t *testing.T, object []byte) string {
	t.Helper()
	f, err := Read(object)
	if err != nil {
		t.Fatal(err)
	}
	return describe(f)
}

func TestForLink(t *testing.T) {
	tests := []struct{ object, code, want string }{
		{"mixed.o", "sm_90", "object: (relocatable) lto_90 compute_90 sm_90"},
		{"mixed.o", "sm_80", "object: (relocatable) lto_80"},
		{"mixed.o", "sm_70", "object: (relocatable) lto_80 compute_90 lto_90 sm_90"}, // none fits: nvlink shall say so
		{"lines.o", "sm_80", "object: (relocatable) compute_80 sm_80"},
		{"lines.o", "sm_86", "object: (relocatable) compute_80 sm_80"},
		{"host2.o", "sm_70", "object: (relocatable) lto_70"},
		{"host2.o", "sm_80", "object: (relocatable) lto_80 sm_80"},
		{"whole.o", "sm_80", "object: "},
		{"plain.o", "sm_80", "object: "},
	}
	for _, tt := range tests {
		thin, err := ForLink(testdata(t, tt.object), code(t, tt.code))
		if err != nil {
			t.Errorf("%s: %v", tt.object, err)
			continue
		}
		if got := strings.TrimSpace(codesOf(t, thin)); got != strings.TrimSpace(normal(tt.want)) {
			t.Errorf("%s for %s:\n got %s\nwant %s", tt.object, tt.code, got, tt.want)
		}
		again, err := ForLink(thin, code(t, tt.code))
		if err != nil || !bytes.Equal(again, thin) {
			t.Errorf("%s for %s: the thin object made thin is another: %v", tt.object, tt.code, err)
		}
	}
}

// normal orders the codes as describe does.
func normal(want string) string {
	head, list, ok := strings.Cut(want, ") ")
	if !ok {
		return want
	}
	return head + ") " + strings.Join(sorted(strings.Fields(list)), " ")
}

// host1.o and host2.o are of one source. They differ in host code (more functions, static
// variables, templates), in the host compiler's options and in the architectures: `nvcc -dc` of
// pair.cu for [sm_80,lto_80]; with -DOTHER -O2 for lto_70 as well.
func TestForLinkKnowsNoHostCode(t *testing.T) {
	one, err := ForLink(testdata(t, "host1.o"), code(t, "sm_80"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := ForLink(testdata(t, "host2.o"), code(t, "sm_80"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("host code shows in the thin object")
	}
	for _, want := range []string{"__nv_module_id", ".nvHRKE", "__fatbinwrap_"} {
		if !bytes.Contains(one, []byte(want)) {
			t.Errorf("the thin object has no %s", want)
		}
	}
}

// Images are the same bytes as in the object, and the wrapper points to the fatbin.
func TestForLinkCopies(t *testing.T) {
	object := testdata(t, "mixed.o")
	thin, err := ForLink(object, code(t, "sm_90"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := splitContainers(contentOf(t, object, linkableSection))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := splitContainers(contentOf(t, thin, linkableSection))
	if err != nil || len(kept) != 1 {
		t.Fatal(len(kept), err)
	}
	var want [][]byte
	for _, e := range whole[0].entries {
		if img, _ := image(e, 0); img.Num == 90 {
			want = append(want, e)
		}
	}
	if !bytes.Equal(bytes.Join(kept[0].entries, nil), bytes.Join(want, nil)) || len(want) != 3 {
		t.Errorf("%d images of %d are not copied byte for byte", len(want), len(whole[0].entries))
	}
	rela := contentOf(t, thin, ".rela"+wrapperSection)
	if len(rela) != relaSize || rela[0] != wrapperData || elf.R_X86_64(rela[8]) != elf.R_X86_64_64 || rela[16] != 0 {
		t.Errorf("relocation % x", rela)
	}
}

// entry is an image without a payload.
func entryOf(kind uint16, num uint32, flags uint64) []byte {
	e, le := make([]byte, entryMinSize), binary.LittleEndian
	le.PutUint16(e, kind)
	le.PutUint32(e[4:], entryMinSize)
	le.PutUint32(e[0x1c:], num)
	le.PutUint64(e[0x28:], flags)
	return e
}

func containerOf(entries ...[]byte) []byte {
	head := make([]byte, headerSize)
	copy(head, fatbinMagic)
	head[4], head[6] = 1, headerSize
	return container{head: head, entries: entries}.appendTo(nil)
}

// Measured with nvlink over random sets of images: which it chooses.
func TestImagesForLink(t *testing.T) {
	named := func(list string) (entries [][]byte) {
		for _, name := range strings.Fields(list) {
			if name == "unknown" {
				entries = append(entries, entryOf(64, 50, 0))
				continue
			}
			c := code(t, name)
			kind := map[gencode.Kind]uint16{gencode.PTX: kindPTX, gencode.SASS: kindELF, gencode.LTO: kindNVVM}[c.Kind]
			entries = append(entries, entryOf(kind, uint32(c.Num), map[string]uint64{"a": flagSpecific}[c.Suffix]))
		}
		return entries
	}
	tests := []struct{ name, images, code, want string }{
		{"each kind of the architecture", "sm_70 lto_70 sm_80 lto_80 compute_80", "sm_80", "sm_80 lto_80 compute_80"},
		{"older LTO-IR goes before machine code", "lto_70 sm_80", "sm_80", "lto_70 sm_80"},
		{"older LTO-IR goes before PTX", "lto_70 compute_80", "sm_80", "lto_70 compute_80"},
		{"machine code goes before PTX", "compute_70 sm_75 sm_80", "sm_80", "sm_80"},
		{"older machine code", "sm_80 sm_90 compute_80", "sm_86", "sm_80 compute_80"},
		{"none that fits", "sm_90 lto_90", "sm_80", "sm_90 lto_90"},
		{"one chip alone", "sm_90 sm_90a lto_90", "sm_90a", "sm_90a lto_90"},
		{"not that chip", "sm_90 sm_90a lto_90a lto_90", "sm_90", "sm_90 lto_90"},
		{"PTX of one chip is chosen by mistake", "compute_90a compute_90 compute_80", "sm_90", "compute_90a compute_90"},
		{"unknown kinds stay", "unknown sm_80 sm_70", "sm_80", "unknown sm_80"},
		{"unknown kinds do not count", "unknown sm_90", "sm_80", "unknown sm_90"},
	}
	for _, tt := range tests {
		got := container{entries: named(tt.images)}.forLink(code(t, tt.code))
		if !bytes.Equal(bytes.Join(got.entries, nil), bytes.Join(named(tt.want), nil)) {
			t.Errorf("%s: %d images, want %s", tt.name, len(got.entries), tt.want)
		}
	}
}

// joined is what ld -r makes of two objects: two fatbins, each with its wrapper. The first shrinks.
func joined(t testing.TB, addend uint64) []byte {
	first := containerOf(entryOf(kindELF, 80, 0), entryOf(kindELF, 70, 0))
	second := containerOf(entryOf(kindPTX, 70, 0))
	w := objectWriter{machine: elf.EM_X86_64}
	w.add("__nv_module_id", elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, []byte("a\x00\x00\x00b\x00"))
	w.add(wrapperSection, elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, make([]byte, 2*wrapperSize))
	fatbins := w.add(linkableSection, elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, append(bytes.Clone(first), second...))
	table := w.addSymbols([]symbol{{name: "fatbinData", section: fatbins, value: uint64(len(first))}, {name: "fatbinData", section: fatbins}})
	w.addRelocations(".rela", 2, table, []relocation{{offset: 8, kind: 1, symbol: 2},
		{offset: wrapperSize + 8, kind: 1, symbol: 2, addend: int64(uint64(len(first)) + addend)}})
	return w.bytes()
}

func TestForLinkOfJoinedObjects(t *testing.T) {
	thin, err := ForLink(joined(t, 0), code(t, "sm_80"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := splitContainers(contentOf(t, thin, linkableSection))
	if err != nil || len(list) != 2 || len(list[0].entries) != 1 || len(list[1].entries) != 1 {
		t.Fatalf("%d fatbins, %v", len(list), err)
	}
	rela := contentOf(t, thin, ".rela"+wrapperSection)
	if got := binary.LittleEndian.Uint64(rela[relaSize+16:]); got != list[1].at || got == 0 {
		t.Errorf("the second wrapper points to %d, the fatbin stands at %d", got, list[1].at)
	}
	if _, err := ForLink(joined(t, 8), code(t, "sm_80")); err == nil || !strings.Contains(err.Error(), "points to no fatbin") {
		t.Errorf("a wrapper that points elsewhere: %v", err)
	}
}

func TestForLinkErrors(t *testing.T) {
	damaged := made(func(w *objectWriter, _ *[]symbol) { w.contents[0] = []byte("no fatbin") })
	twice := made(func(w *objectWriter, _ *[]symbol) {
		w.add("__nv_module_id", elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, nil)
		w.add("__nv_module_id", elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, nil)
	})
	for want, object := range map[string][]byte{
		"no ELF object": testdata(t, "bare.fatbin"), "no relocatable object": testdata(t, "libshared.so"),
		"no fatbin header": damaged, "more than one": twice,
	} {
		if _, err := ForLink(object, code(t, "sm_80")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzForLink: no bytes make it panic, and a thin object is its own thin object.
func FuzzForLink(f *testing.F) {
	for _, name := range []string{"mixed.o", "lines.o", "plain.o", "host2.o"} {
		f.Add(testdata(f, name))
	}
	f.Add(joined(f, 0))
	f.Fuzz(func(t *testing.T, object []byte) {
		c := gencode.Code{Num: 80}
		out, err := ForLink(object, c)
		if err != nil {
			return
		}
		again, err := ForLink(out, c)
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("made thin again: %d bytes, %d bytes, %v", len(out), len(again), err)
		}
	})
}
