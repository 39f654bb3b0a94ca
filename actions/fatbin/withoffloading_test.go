package fatbin

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"
)

// The objects are off.cu, compiled with the placeholder and by the whole compiler.
func TestWithOffloading(t *testing.T) {
	for _, version := range []string{"19", "23"} {
		host, want := testdata(t, "offhost"+version+".o"), testdata(t, "offwhole"+version+".o")
		got, err := OffloadCode.Fill(host, placeholder, contentOf(t, want, offloadingSection))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("clang %s: not the object that the compiler makes of the code: %v", version, err)
		}
	}
}

func TestWithOffloadingErrors(t *testing.T) {
	host, whole := testdata(t, "offhost19.o"), testdata(t, "offwhole19.o")
	code := contentOf(t, whole, offloadingSection)
	placed := func(change func(w *objectWriter)) []byte {
		w := objectWriter{machine: elf.EM_X86_64}
		w.add(offloadingSection, elf.Section64{Type: 0x6fff4c0b, Addralign: 8}, []byte(placeholder))
		change(&w)
		w.addSymbols([]symbol{{info: elf.ST_INFO(elf.STB_LOCAL, elf.STT_SECTION), section: 1}})
		return w.bytes()
	}
	if _, err := OffloadCode.Fill(placed(func(*objectWriter) {}), placeholder, code); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		want         string
		object, code []byte
	}{
		{"no offload binary", host, bundleMagic},
		{"no section", testdata(t, "plain.o"), code},
		{"want exactly the placeholder", whole, code},
		{"want 0 pointers", placed(func(w *objectWriter) {
			w.add(".data", elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: 3, Addralign: 8}, make([]byte, 8))
			w.addRelocations(".rela.data", 2, 4, []relocation{{kind: 1, symbol: 1}})
		}), code},
		{"intermediate code", placed(func(w *objectWriter) { w.add(".llvmbc", elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, []byte{1}) }), code},
		{"more than one section", placed(func(w *objectWriter) {
			w.add(offloadingSection, elf.Section64{Type: 0x6fff4c0b, Addralign: 8}, []byte(placeholder))
		}), code},
		{"no ELF object", nil, code},
	} {
		if _, err := OffloadCode.Fill(tt.object, placeholder, tt.code); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// FuzzWithOffloading: no bytes make it panic, and what it gives is an object with the code.
func FuzzWithOffloading(f *testing.F) {
	for _, name := range []string{"offhost19.o", "offhost23.o", "offwhole19.o", "plain.o"} {
		f.Add(testdata(f, name))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		out, err := OffloadCode.Fill(object, placeholder, offloadMagic)
		if err != nil {
			return
		}
		o, err := parseRelocatable(out)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := o.only(offloadingSection); err != nil || at < 0 || !bytes.Equal(o.content(at), offloadMagic) {
			t.Errorf("the object does not hold the code: %v", err)
		}
	})
}
