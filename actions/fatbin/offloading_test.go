package fatbin

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// offloadBinaryOf is an OffloadBinary of one image, as versions 1 and 2 have it.
func offloadBinaryOf(version uint32, offload, image uint16, words [][2]string, code string) []byte {
	le, pair := binary.LittleEndian, map[uint32]int{1: 16, 2: 24}[version]
	table := make([]byte, 0)
	at := offloadHeadSize + offloadEntrySize + pair*len(words)
	var text []byte
	for _, w := range words {
		table = le.AppendUint64(table, uint64(at+len(text)))
		text = append(text, w[0]+"\x00"...)
		table = le.AppendUint64(table, uint64(at+len(text)))
		text = append(text, w[1]+"\x00"...)
		if version == 2 {
			table = le.AppendUint64(table, uint64(len(w[1])))
		}
	}
	size := (at + len(text) + len(code) + 7) &^ 7
	out := le.AppendUint32(bytes.Clone(offloadMagic), version)
	out = le.AppendUint64(le.AppendUint64(out, uint64(size)), offloadHeadSize)
	out = le.AppendUint64(out, map[uint32]uint64{1: offloadEntrySize, 2: 1}[version])
	out = le.AppendUint32(le.AppendUint16(le.AppendUint16(out, image), offload), 0)
	for _, v := range []int{offloadHeadSize + offloadEntrySize, len(words), at + len(text), len(code)} {
		out = le.AppendUint64(out, uint64(v))
	}
	out = slices.Concat(out, table, text, []byte(code))
	return append(out, make([]byte, size-len(out))...)
}

func imagesOffloaded(t *testing.T, section []byte) string {
	t.Helper()
	images, err := readOffloading(section)
	if err != nil {
		return err.Error()
	}
	var list []gencode.Image
	for _, i := range images {
		list = append(list, i.Image)
	}
	return gencode.Spell(list)
}

// The words of an entry decide, and the offload kind does not: HIP is 3 in clang 17 and 4 in 21.
func TestOffloading(t *testing.T) {
	const bitcode, elf, ptx = "BC\xc0\xdecode", "\x7fELFcode", "//\n.version"
	amd := func(arch string) [][2]string { return [][2]string{{"triple", "amdgcn-amd-amdhsa"}, {"arch", arch}} }
	nv := [][2]string{{"arch", "sm_90a"}, {"triple", "nvptx64-nvidia-cuda"}}
	for _, tt := range []struct {
		name           string
		offload, image uint16
		words          [][2]string
		code, want     string
	}{
		{"bitcode", 4, 2, amd("gfx90a:xnack-"), bitcode, "gfx90a:xnack- bitcode"},
		{"of clang 17", 3, 0, append(amd("gfx90a"), [2]string{"feature", "-xnack,+sramecc,-xnack"}), bitcode, "gfx90a:sramecc+:xnack- bitcode"},
		{"a generic architecture", 4, 1, amd("gfx11-generic"), elf, "gfx11-generic code object"},
		{"a cubin", 2, 3, nv, elf, "sm_90a"},
		{"PTX", 2, 5, nv, ptx, "compute_90a"},
		{"NVIDIA's bitcode", 2, 2, nv, bitcode, "sm_90a bitcode"},
		{"OpenMP", 1, 2, amd("gfx906"), bitcode, "no device code"},
		{"SPIR-V", 4, 0, [][2]string{{"triple", "spirv64-amd-amdhsa"}, {"arch", "amdgcnspirv"}}, "\x03\x02\x23\x07", "amdgcnspirv SPIR-V"},
		{"SPIR-V to be linked", 4, 2, [][2]string{{"triple", "spirv64-amd-amdhsa"}, {"arch", "amdgcnspirv"}}, bitcode, "amdgcnspirv bitcode"},
		{"no words", 4, 2, nil, bitcode, "no device code"},
	} {
		for version := range uint32(2) {
			b := offloadBinaryOf(version+1, tt.offload, tt.image, tt.words, tt.code)
			if got := imagesOffloaded(t, b); got != tt.want {
				t.Errorf("%s, version %d: %s, want %s", tt.name, version+1, got, tt.want)
			}
		}
	}
	two := slices.Concat(offloadBinaryOf(1, 4, 2, amd("gfx906"), bitcode), make([]byte, 16), offloadBinaryOf(2, 4, 2, amd("gfx90a"), bitcode))
	if got := imagesOffloaded(t, two); got != "gfx906 bitcode, gfx90a bitcode" {
		t.Errorf("two: %s", got)
	}
}

func TestWrongOffloading(t *testing.T) {
	good := offloadBinaryOf(2, 4, 2, [][2]string{{"triple", "amdgcn-amd-amdhsa"}, {"arch", "gfx906"}}, "BC\xc0\xde")
	put := func(at int, v uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	const entry = offloadHeadSize
	for _, tt := range []struct {
		name, want string
		section    []byte
	}{
		{"cut short in its head", "cut short", good[:20]},
		{"cut short", "longer than its section", good[:len(good)-8]},
		{"no magic", "no header", slices.Concat([]byte("none"), good[4:])},
		{"another version", "version 3", slices.Concat(good[:4], []byte{3, 0, 0, 0}, good[8:])},
		{"no size", "longer than its section", put(8, 0)},
		{"too many entries", "entries lie outside", put(24, 1<<62)},
		{"entries outside", "entries lie outside", put(16, 1<<62)},
		{"strings outside", "strings lie outside", put(entry+8, 1<<62)},
		{"too many strings", "strings lie outside", put(entry+16, 1<<62)},
		{"an image outside", "image lies outside", put(entry+24, 1<<62)},
		{"an image too long", "image lies outside", put(entry+32, 1<<62)},
		{"a word outside", "no device code", put(entry+offloadEntrySize, 1<<62)},
	} {
		if got := imagesOffloaded(t, tt.section); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// However the entries of a section are nested, there is an end to them.
func TestManyOffloadBinaries(t *testing.T) {
	one := offloadBinaryOf(1, 4, 2, [][2]string{{"triple", "amdgcn-amd-amdhsa"}, {"arch", "gfx906"}}, "BC\xc0\xde")
	if got := imagesOffloaded(t, bytes.Repeat(one, 1000)); strings.Count(got, "gfx906") != 1000 {
		t.Errorf("of 1000: %.100s", got)
	}
	if got := imagesOffloaded(t, bytes.Repeat(one, maxOffloadTotal+1)); !strings.Contains(got, "more than any real section") {
		t.Errorf("of too many: %.100s", got)
	}
}

// FuzzOffloading: no bytes make it panic or run on for ever, and images lie in the section.
func FuzzOffloading(f *testing.F) {
	for _, name := range []string{"newdriver17.o", "newdriver21.o", "newdriver23.o", "offwhole19.o", "offwhole23.o"} {
		f.Add(contentOf(f, testdata(f, name), offloadingSection))
	}
	f.Add(offloadBinaryOf(2, 4, 1, [][2]string{{"triple", "spirv64-amd-amdhsa"}, {"arch", "amdgcnspirv"}}, "\x03\x02\x23\x07"))
	f.Fuzz(func(t *testing.T, section []byte) {
		images, err := readOffloading(section)
		if err == nil && len(images) > len(section)/offloadEntrySize {
			t.Errorf("%d images in %d bytes", len(images), len(section))
		}
		for _, i := range images {
			if i.Size < 4 || i.Size > int64(len(section)) || i.Name == "" && i.Num == 0 {
				t.Errorf("%v of %d bytes in a section of %d", i.Image, i.Size, len(section))
			}
		}
	})
}

// FuzzBundles: the same of bundles, compressed or not.
func FuzzBundles(f *testing.F) {
	for _, name := range []string{"hip15.bundle", "hip19.bundle"} {
		f.Add(testdata(f, name))
	}
	f.Add(bundleOf([2]string{"hipv4-amdgcn-amd-amdhsa--gfx11-generic", "\x7fELF"}, [2]string{"hip-spirv64-amd-amdhsa--amdgcnspirv", "\x03\x02\x23\x07"}))
	f.Fuzz(func(t *testing.T, section []byte) {
		images, _ := readBundles(section)
		for _, i := range images {
			if i.Size > int64(len(section)) || i.Unpacked > maxBundleRatio*int64(len(section)) {
				t.Errorf("%v of %d bytes, %d unpacked, in a section of %d", i.Image, i.Size, i.Unpacked, len(section))
			}
		}
	})
}

// Code for the very target counts, in any form.
func TestLacks(t *testing.T) {
	codes := func(names ...string) (list []gencode.Code) {
		for _, n := range names {
			c, err := gencode.Parse(n)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		return list
	}
	for _, tt := range []struct {
		file        string
		asked, want []gencode.Code
	}{
		{"hipwhole15.o", codes("gfx906", "gfx90a:xnack-"), nil},
		{"newdriver23.o", codes("gfx906", "gfx90a:xnack-"), nil},
		{"hiprdc15.o", codes("gfx906", "gfx90a", "gfx90a:xnack+", "gfx1030"), codes("gfx90a", "gfx90a:xnack+", "gfx1030")},
		{"libboth.so", codes("sm_80", "compute_80", "compute_90", "gfx1100"), codes("compute_90")},
		{"plain.o", codes("sm_80"), codes("sm_80")},
	} {
		f, err := ReadFile("testdata/" + tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Lacks(tt.asked); !slices.Equal(got, tt.want) {
			t.Errorf("%s lacks %v, want %v", tt.file, got, tt.want)
		}
	}
}
