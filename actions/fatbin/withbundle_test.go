package fatbin

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"
)

// The objects are step.hip, compiled with the placeholder and by the whole compiler. Clang 15 ends
// the bundle with a 0 byte, and clang 19, which compressed it, with nothing.
func TestWithBundle(t *testing.T) {
	for _, version := range []string{"15", "19"} {
		host, want := testdata(t, "hiphost"+version+".o"), testdata(t, "hipwhole"+version+".o")
		bundle := contentOf(t, want, bundleSection)
		if version == "15" {
			bundle = bundle[:len(bundle)-1]
		}
		got, err := BundleCode.Fill(host, placeholder, bundle)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("clang %s: not the object that the compiler makes of the bundle: %v", version, err)
		}
	}
}

// A bundle of any length is placed as it is.
func TestWithBundleOfAnyLength(t *testing.T) {
	host, bundle := testdata(t, "hiphost19.o"), []byte("CCOB, of some length")
	for len(bundle) < 2*bundleAlign {
		got, err := BundleCode.Fill(host, placeholder, bundle)
		if err != nil {
			t.Fatal(err)
		}
		if content := contentOf(t, got, bundleSection); !bytes.Equal(content, bundle) {
			t.Fatalf("%d bytes in the section, of a bundle of %d", len(content), len(bundle))
		}
		sameButFor(t, bundleSection, host, got)
		bundle = append(bundle, make([]byte, 997)...)
	}
}

// placed is an object with the placeholder and whatever a test adds.
func placed(change func(*objectWriter, *[]symbol)) []byte { return BundleCode.placed(change) }

func (p ClangPlace) placed(change func(*objectWriter, *[]symbol)) []byte {
	w := objectWriter{machine: elf.EM_X86_64}
	data := elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: 2, Addralign: p.align}
	w.add(p.section, data, []byte(placeholder))
	w.add(p.wrapper, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: 3, Addralign: 8}, make([]byte, 24))
	symbols := []symbol{{info: elf.ST_INFO(elf.STB_LOCAL, elf.STT_SECTION), section: 1}}
	w.addRelocations(".rela"+p.wrapper, 2, 0, []relocation{{offset: 8, kind: 1, symbol: 1}})
	change(&w, &symbols)
	w.addSymbols(symbols)
	return w.bytes()
}

func TestWithBundleErrors(t *testing.T) {
	bundle, nothing := bundleMagic, func(*objectWriter, *[]symbol) {}
	section := func(name string) []byte {
		return placed(func(w *objectWriter, _ *[]symbol) {
			w.add(name, elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, []byte{1})
		})
	}
	relocated := func(of int, addend int64) []byte {
		return placed(func(w *objectWriter, _ *[]symbol) {
			w.addRelocations(".rela", of, 0, []relocation{{offset: 16, kind: 1, symbol: 1, addend: addend}})
		})
	}
	changed := func(change func(w *objectWriter)) []byte {
		return placed(func(w *objectWriter, _ *[]symbol) { change(w) })
	}
	resize := func(section int, content []byte) []byte {
		return changed(func(w *objectWriter) { w.contents[section], w.sections[section].Size = content, uint64(len(content)) })
	}
	if out, err := BundleCode.Fill(testdata(t, "whole.o"), placeholder, bundle); err != nil || !bytes.Equal(out, testdata(t, "whole.o")) {
		t.Error("an object without kernels does not stay as it is:", err)
	}
	literal := placed(nothing)
	if _, err := BundleCode.Fill(literal, placeholder, bundle); err != nil {
		t.Fatal("the object that the others are made of:", err)
	}
	tests := []struct {
		name, want     string
		object, bundle []byte
	}{
		{"no bundle", "no bundle", literal, []byte("\x7fELF")},
		{"no object", "no ELF object", bundle, bundle},
		{"cut short", "outside", literal[:len(literal)-1], bundle},
		{"only the record", "no section .hip_fatbin", changed(func(w *objectWriter) { w.sections[0].label = ".data" }), bundle},
		{"the section twice", "more than one", section(bundleSection), bundle},
		{"the record twice", "more than one", section(bundlesWrapper), bundle},
		{"a bundle already", "want exactly the placeholder", testdata(t, "hipwhole15.o"), bundle},
		{"more than the placeholder", "want exactly the placeholder", resize(0, []byte(placeholder+"\x00\x00")), bundle},
		{"another end", "want exactly the placeholder", resize(0, []byte(placeholder+"\n")), bundle},
		{"a smaller alignment", "not aligned to 4096", changed(func(w *objectWriter) { w.sections[0].Addralign = 16 }), bundle},
		{"relocations in it", "it has relocations", relocated(1, 0), bundle},
		{"a pointer into it", "into its middle", relocated(2, 4), bundle},
		{"the same literal elsewhere", "want 1 pointers", relocated(2, 0), bundle},
		{"nothing points to it", "want 1 pointers", resize(2, nil), bundle},
		{"another record", "want 1 pointers", changed(func(w *objectWriter) { w.sections[1].label = ".data" }), bundle},
		{"a symbol", "another symbol", placed(func(_ *objectWriter, list *[]symbol) {
			*list = append(*list, symbol{name: ".L.str", section: 1})
		}), bundle},
		{"a symbol without a name", "another symbol", placed(func(_ *objectWriter, list *[]symbol) {
			*list = append(*list, symbol{section: 1})
		}), bundle},
	}
	for _, tt := range tests {
		_, err := BundleCode.Fill(tt.object, placeholder, tt.bundle)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// A fatbin takes the place of the placeholder in CUDA that clang compiled, and in no other object.
func TestWithClangFatbin(t *testing.T) {
	fatbin := append(bytes.Clone(fatbinMagic), "and the rest"...)
	cuda := CUDACode.placed(func(*objectWriter, *[]symbol) {})
	got, err := CUDACode.Fill(cuda, placeholder, fatbin)
	if err != nil || !bytes.Equal(contentOf(t, got, finalSection), fatbin) {
		t.Errorf("not placed: %v", err)
	}
	sameButFor(t, finalSection, cuda, got)
	hip := placed(func(*objectWriter, *[]symbol) {})
	if out, err := CUDACode.Fill(hip, placeholder, fatbin); err != nil || !bytes.Equal(out, hip) {
		t.Errorf("an object without a place for a fatbin is not as it was: %v", err)
	}
	for what, give := range map[string]func() ([]byte, error){
		"no fatbin":                    func() ([]byte, error) { return CUDACode.Fill(cuda, placeholder, bundleMagic) },
		"want exactly the placeholder": func() ([]byte, error) { return CUDACode.Fill(got, placeholder, fatbin) },
		"want 1 pointers": func() ([]byte, error) {
			return CUDACode.Fill(CUDACode.placed(func(w *objectWriter, _ *[]symbol) {
				w.addRelocations(".rela.data", 2, 0, []relocation{{offset: 0, kind: 1, symbol: 1}})
			}), placeholder, fatbin)
		},
	} {
		if _, err := give(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// FuzzWithBundle: no bytes make it panic, and what it gives is an object with the bundle.
func FuzzWithBundle(f *testing.F) {
	for _, name := range []string{"hiphost15.o", "hiphost19.o", "hipwhole15.o", "whole.o"} {
		f.Add(testdata(f, name))
	}
	f.Add(placed(func(*objectWriter, *[]symbol) {}))
	f.Fuzz(func(t *testing.T, object []byte) {
		out, err := BundleCode.Fill(object, placeholder, bundleMagic)
		if err != nil {
			return
		}
		if bytes.Equal(out, object) {
			return // it has no place for a bundle
		}
		o, err := parseRelocatable(out)
		if err != nil {
			t.Fatal(err)
		}
		if at, err := o.only(bundleSection); err != nil || at < 0 || !bytes.HasPrefix(o.content(at), bundleMagic) {
			t.Errorf("the object does not hold the bundle: %v", err)
		}
	})
}
