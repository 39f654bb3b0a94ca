package fatbin

import (
	"bytes"
	"debug/elf"
	"slices"
	"strings"
	"testing"
)

// hostObject is a plain object that refers to names, and defines others weakly.
func hostObject(wants, weak []string) []byte {
	w := objectWriter{machine: elf.EM_X86_64}
	text := w.add(".text", elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC)}, make([]byte, 8))
	list := []symbol{{name: "a.cc", info: elf.ST_INFO(elf.STB_LOCAL, elf.STT_FILE)}, {name: "own", section: text}}
	for _, n := range wants {
		list = append(list, symbol{name: n, info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_NOTYPE)})
	}
	for _, n := range weak {
		list = append(list, symbol{name: n, section: text, info: elf.ST_INFO(elf.STB_WEAK, elf.STT_FUNC)})
	}
	list = append(list, symbol{name: "main", section: text, info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC)})
	w.addSymbols(list)
	return w.bytes()
}

func TestHostSymbols(t *testing.T) {
	archive := func(members ...[]byte) []byte {
		var list []archiveMember
		for _, m := range members {
			list = append(list, archiveMember{"m.o", m})
		}
		return joinArchive(list)
	}
	plain := hostObject([]string{"_Z1kPi", "puts"}, []string{"_Z4weakv"})
	for _, tt := range []struct {
		name             string
		data             []byte
		wants            string
		unknown, lookups string
		cuda             int
	}{
		{name: "a plain object", data: plain, wants: "_Z1kPi puts _Z4weakv"},
		{name: "one that looks up", data: hostObject([]string{"dlsym"}, nil), wants: "dlsym", lookups: "dlsym"},
		{name: "a library", data: archive(plain, hostObject([]string{"d"}, nil)), wants: "_Z1kPi puts _Z4weakv d"},
		{name: "an empty library", data: archive()},
		{name: "nvcc's object", data: testdata(t, "host1.o"), cuda: 1, wants: "__cudaPushCallConfiguration __cudaUnregisterFatBinary" +
			" __cudaInitModule __cudaPopCallConfiguration __cudaRegisterFunction __cudaRegisterVar" +
			" __cudaRegisterLinkedBinary_43c46863_7_pair_cu_d cudaMemcpyToSymbol cudaLaunchKernel"},
		{name: "bitcode", data: []byte("BC\xc0\xde1234"), unknown: "intermediate code"},
		{name: "bitcode in a library", data: archive(plain, []byte("BC\xc0\xde")), wants: "_Z1kPi puts _Z4weakv", unknown: "m.o: it is intermediate code"},
		{name: "text", data: []byte("OBJECT"), unknown: "no ELF object"},
		{name: "a thin archive", data: []byte("!<thin>\n"), unknown: "no ELF object"},
	} {
		h := ReadHostSymbols(tt.data)
		if got := strings.Join(h.Wants, " "); got != tt.wants || len(h.CUDA) != tt.cuda || h.Lookups != tt.lookups {
			t.Errorf("%s: wants %q, %d of CUDA, looks up by %q", tt.name, got, len(h.CUDA), h.Lookups)
		}
		if !strings.Contains(h.Unknown, tt.unknown) || tt.unknown == "" && h.Unknown != "" {
			t.Errorf("%s: unknown %q, want %q", tt.name, h.Unknown, tt.unknown)
		}
	}
	if h := ReadHostSymbols(testdata(t, "libshared.so")); h.Unknown != "" || len(h.Wants) == 0 {
		t.Errorf("a shared library: %+v", h)
	}
}

// Of what host code refers to, only kernels and variables of the object count.
func TestCUDAHostNames(t *testing.T) {
	object := ReadHostSymbols(testdata(t, "host1.o")).CUDA[0]
	for wants, want := range map[string]string{"_Z1kPi _Z3runPi d": "_Z1kPi d", "_Z3runPi puts": "", "__fatbinwrap_43c46863_7_pair_cu_d": ""} {
		wanted := map[string][]string{}
		for _, n := range strings.Fields(wants) {
			wanted[n] = []string{"a.o"}
		}
		got, unknown, err := object.Names(wanted)
		slices.Sort(got)
		if err != nil || unknown != "" || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", wants, got, err)
		}
	}
	// Another spelling of the kernel's parameters in the host code.
	renamed := bytes.ReplaceAll(testdata(t, "host1.o"), []byte("\x00_Z1kPi\x00__"), []byte("\x00_Z1kPl\x00__"))
	object = ReadHostSymbols(renamed).CUDA[0]
	if got, unknown, err := object.Names(map[string][]string{"_Z1kPl": {"a.o"}}); err != nil || len(got) > 0 || unknown != "_Z1kPl" {
		t.Errorf("spelled in two ways: %q, unknown %q, %v", got, unknown, err)
	}
}

// The lists grow, and a second object of the same names is the same.
func TestWithHostRefs(t *testing.T) {
	object := testdata(t, "host1.o")
	with, err := WithHostRefs(object, []string{"_Z5otherv", "v"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseRelocatable(with)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{".nvHRKE": "_Z1k*\x00_Z5otherv\x00v\x00", ".nvHRDE": "d\x00_Z5otherv\x00v\x00", ".nvHRCE": "_Z5otherv\x00v\x00", ".nvHRKI": "\x00"} {
		at, _ := o.only(name)
		if got := string(o.content(at)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	symbols, _ := o.symbols()
	for _, s := range symbols {
		if s.name == "hostRefConstantArrayExternalLinkage" && s.size != uint64(len("_Z5otherv\x00v\x00")) {
			t.Errorf("%s has %d bytes", s.name, s.size)
		}
	}
	if _, err := WithHostRefs(testdata(t, "plain.o"), nil); err == nil {
		t.Error("a plain object takes names")
	}
	lib, err := ArchiveWithHostRefs(joinArchive([]archiveMember{{"p.o", testdata(t, "plain.o")}, {"h.o", object}}), []string{"_Z5otherv", "v"})
	if members, _ := splitArchive(lib); err != nil || len(members) != 2 || string(members[1].content) != string(with) {
		t.Errorf("a library: %d members, %v", len(members), err)
	}
}

func FuzzHostSymbols(f *testing.F) {
	for _, name := range []string{"host1.o", "plain.o", "lib.a", "libshared.so"} {
		f.Add(testdata(f, name))
	}
	f.Add(hostObject([]string{"a"}, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range ReadHostSymbols(data).CUDA {
			all, _ := c.object.symbols()
			wants := map[string][]string{}
			for _, s := range all {
				wants[s.name] = []string{"a.o"}
			}
			c.Names(wants)
		}
		WithHostRefs(data, []string{"x"})
	})
}
