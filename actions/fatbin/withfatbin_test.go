package fatbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// contentOf is what debug/elf reads of a section.
func contentOf(t testing.TB, object []byte, name string) []byte {
	t.Helper()
	e, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	s := e.Section(name)
	if s == nil {
		t.Fatalf("no section %s", name)
	}
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A fatbin of another size and then the old one again give the compiler's bytes: nothing else moved
// or was lost, and the layout is the assembler's.
func TestWithFatbinAndBack(t *testing.T) {
	other := testdata(t, "bare.fatbin")
	for name, section := range map[string]string{"mixed.o": linkableSection, "lines.o": linkableSection,
		"host1.o": linkableSection, "host2.o": linkableSection, "whole.o": finalSection} {
		object := testdata(t, name)
		old := contentOf(t, object, section)
		changed, err := WithFatbin(object, other)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(contentOf(t, changed, section), other) {
			t.Errorf("%s: section %s does not hold the fatbin", name, section)
		}
		sameButFor(t, section, object, changed)
		if back, err := WithFatbin(changed, old); err != nil || !bytes.Equal(back, object) {
			t.Errorf("%s: the old fatbin does not give the old object: %v", name, err)
		}
	}
}

// sameButFor holds two objects against each other, but for one section and the places in the file.
func sameButFor(t *testing.T, section string, a, b []byte) {
	t.Helper()
	x, errX := elf.NewFile(bytes.NewReader(a))
	y, errY := elf.NewFile(bytes.NewReader(b))
	if errX != nil || errY != nil || len(x.Sections) != len(y.Sections) {
		t.Fatal("not the same sections: ", errX, errY)
	}
	for i, s := range x.Sections {
		was, is := s.SectionHeader, y.Sections[i].SectionHeader
		if is.Addralign > 1 && is.Offset%is.Addralign != 0 {
			t.Errorf("section %s stands at %d", is.Name, is.Offset)
		}
		if s.Name == section || s.Type == elf.SHT_NULL {
			continue
		}
		is.Offset = was.Offset
		old, _ := s.Data()
		now, _ := y.Sections[i].Data()
		if was != is || !bytes.Equal(old, now) {
			t.Errorf("section %s changed", s.Name)
		}
	}
}

// A fatbin whose length is no multiple of 8 is filled up, as the compiler does it.
func TestWithFatbinFills(t *testing.T) {
	fatbin := append(testdata(t, "bare.fatbin"), 1, 2, 3)
	object, err := WithFatbin(testdata(t, "mixed.o"), fatbin)
	if err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(fatbin), 0, 0, 0, 0, 0)
	if got := contentOf(t, object, linkableSection); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// made is an object of a section with a fatbin and whatever a test adds.
func made(change func(*objectWriter, *[]symbol)) []byte {
	w := objectWriter{machine: elf.EM_AARCH64}
	w.add(linkableSection, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: 2, Addralign: 8}, make([]byte, 8))
	w.add(wrapperSection, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: 2, Addralign: 8}, make([]byte, 24))
	symbols := []symbol{{name: "fatbinData", section: 1}}
	change(&w, &symbols)
	w.addSymbols(symbols)
	return w.bytes()
}

func TestWithFatbinErrors(t *testing.T) {
	fatbin, mixed := testdata(t, "bare.fatbin"), testdata(t, "mixed.o")
	more := func(name string) []byte {
		return made(func(w *objectWriter, _ *[]symbol) {
			w.add(name, elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, []byte{1})
		})
	}
	relocated := func(of uint32, addend byte) []byte {
		return made(func(w *objectWriter, _ *[]symbol) {
			r := make([]byte, relaSize)
			r[0], r[8], r[12], r[16] = 8, 1, 1, addend
			w.add(".rela", elf.Section64{Type: uint32(elf.SHT_RELA), Info: of, Entsize: relaSize}, r)
		})
	}
	add := func(s symbol) []byte {
		return made(func(_ *objectWriter, list *[]symbol) { *list = append(*list, s) })
	}
	if _, err := WithFatbin(made(func(*objectWriter, *[]symbol) {}), fatbin); err != nil {
		t.Fatal("the object that the others are made of:", err)
	}
	if _, err := WithFatbin(relocated(2, 0), fatbin); err != nil {
		t.Fatal("a pointer to the start:", err)
	}
	tests := []struct {
		name, want     string
		object, fatbin []byte
	}{
		{"no fatbin", "no fatbin", mixed, []byte("\x7fELF")},
		{"no object", "no ELF object", fatbin, fatbin},
		{"cut short", "lies outside|lie outside", mixed[:len(mixed)-1], fatbin},
		{"a library", "no relocatable object", testdata(t, "libshared.so"), fatbin},
		{"host code alone", "no section of device code", testdata(t, "plain.o"), fatbin},
		{"the section twice", "more than one", more(linkableSection), fatbin},
		{"both sections", "both sections", more(finalSection), fatbin},
		{"gcc's intermediate code", "intermediate code (section .gnu.lto_.decls", more(".gnu.lto_.decls"), fatbin},
		{"clang's intermediate code", "intermediate code", more(".llvm.lto"), fatbin},
		{"relocations in it", "it has relocations", relocated(1, 0), fatbin},
		{"a pointer into it", "into its middle", relocated(2, 4), fatbin},
		{"another symbol", "another symbol", add(symbol{name: "other", section: 1}), fatbin},
		{"a global symbol", "another symbol", add(symbol{name: "fatbinData", info: 0x10, section: 1}), fatbin},
		{"two symbols", "2 symbols", add(symbol{name: "fatbinData", section: 1}), fatbin},
		{"sections over each other", "over each other", edit(t, testdata(t, "whole.o"), func(s section) { s.set(0x20, s.get(0x20)+64) }), fatbin},
		{"an impossible alignment", "impossible alignment", edit(t, testdata(t, "whole.o"), func(s section) { s.set(0x30, s.get(0x18)) }), fatbin},
	}
	for _, tt := range tests {
		_, err := WithFatbin(tt.object, tt.fatbin)
		ok := false
		for _, w := range strings.Split(tt.want, "|") {
			ok = ok || err != nil && strings.Contains(err.Error(), w)
		}
		if !ok {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// An object whose numbers of sections do not fit into the header has them in section 0.
func TestWideSectionNumbers(t *testing.T) {
	object := made(func(*objectWriter, *[]symbol) {})
	le := binary.LittleEndian
	first := object[le.Uint64(object[0x28:]):]
	le.PutUint64(first[0x20:], uint64(le.Uint16(object[0x3c:])))
	le.PutUint32(first[0x28:], uint32(le.Uint16(object[0x3e:])))
	le.PutUint16(object[0x3c:], 0)
	le.PutUint16(object[0x3e:], uint16(elf.SHN_XINDEX))
	fatbin := testdata(t, "bare.fatbin")
	out, err := WithFatbin(object, fatbin)
	if err != nil {
		t.Fatal(err)
	}
	// debug/elf reads no such object with so few sections.
	o, err := parseRelocatable(out)
	if err != nil || len(o.sections) != 6 {
		t.Fatal(err)
	}
	if got, _ := o.only(linkableSection); !bytes.Equal(o.content(got), fatbin) {
		t.Error("the section does not hold the fatbin")
	}
}

// FuzzWithFatbin: no bytes make it panic, and what it gives is an object with the fatbin.
func FuzzWithFatbin(f *testing.F) {
	fatbin := testdata(f, "bare.fatbin")
	for _, name := range []string{"mixed.o", "whole.o", "plain.o", "host2.o"} {
		f.Add(testdata(f, name))
	}
	f.Add(made(func(*objectWriter, *[]symbol) {}))
	f.Fuzz(func(t *testing.T, object []byte) {
		out, err := WithFatbin(object, fatbin)
		if err != nil {
			return
		}
		o, err := parseRelocatable(out)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := o.deviceSection(); err != nil || !bytes.Equal(o.content(at), fatbin) {
			t.Errorf("the object does not hold the fatbin: %v", err)
		}
	})
}
