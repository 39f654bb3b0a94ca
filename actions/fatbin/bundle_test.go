package fatbin

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// The files were made from step.hip by clang 15 and 19, with -x hip -nogpuinc -nogpulib -O3
// --offload-arch=gfx906 --offload-arch=gfx90a:xnack- unless it says otherwise:
//
//	hiphost*.o   -c --cuda-host-only -Xclang -cuid=1 -Xclang -fcuda-include-gpubinary -Xclang PLACEHOLDER
//	hipwhole*.o  -c -cuid=1; 19 also --offload-compress
//	hiprdc*.o    -c -cuid=1 -fgpu-rdc
//	newdriver*.o 17, 21 and 23, -c -cuid=1 -fgpu-rdc --offload-new-driver
//	spirv21.o    21, -c -cuid=1 -nogpuinc -nogpulib --offload-arch=amdgcnspirv, gfx906, gfx11-generic
//	spirvnew22.o 22, the same with -fgpu-rdc --offload-new-driver, amdgcnspirv and gfx11-generic
//	generic22.bundle 22, gfx11-generic and gfx9-4-generic, -c --cuda-device-only --offload-compress: version 3
//	offwhole*.o  19 and 23, of off.cu, CUDA 11.8: -O2 --offload-new-driver -fgpu-rdc -foffload-lto -Xclang -cuid=1 --offload-arch=sm_80, sm_90
//	offhost*.o   the same, --cuda-host-only -Xclang -fembed-offload-object=PLACEHOLDER
//	hip*.bundle  -c --cuda-device-only --gpu-bundle-output; 19 also --offload-compress
//	gfx90a.co    15, -c --cuda-device-only --no-gpu-bundle-output, gfx90a:xnack- alone
//	version3.co  the same for gfx906, -mcode-object-version=3
//	gfx906.bc    the same for gfx906, -fgpu-rdc -emit-llvm
//	libboth.so   g++ -shared of compressed gfx906 and gfx90a:xnack-, gfx906, compressed gfx1100, nvcc's sm_80
//	libhip.a     hiprdc15.o with a long name, a plain C++ object, an object of final gfx906
var filesOfHIP = []struct{ name, want string }{
	{"hipwhole15.o", "object: () gfx906 code object gfx90a:xnack- code object"},
	{"hipwhole19.o", "object: () gfx906 code object gfx90a:xnack- code object"},
	{"hiprdc15.o", "object: (relocatable) gfx906 bitcode gfx90a:xnack- bitcode"},
	{"hiprdc19.o", "object: (relocatable) gfx906 bitcode gfx90a:xnack- bitcode"},
	{"newdriver17.o", "object: (relocatable, of the new driver) gfx906 bitcode gfx90a:xnack- bitcode"},
	{"newdriver21.o", "object: (relocatable, of the new driver) gfx906 bitcode gfx90a:xnack- bitcode"},
	{"newdriver23.o", "object: (relocatable, of the new driver) gfx906 bitcode gfx90a:xnack- bitcode"},
	{"offwhole19.o", "object: (relocatable, of the new driver) sm_80 bitcode sm_90 bitcode"},
	{"offwhole23.o", "object: (relocatable, of the new driver) sm_80 bitcode sm_90 bitcode"},
	{"spirv21.o", "object: () amdgcnspirv SPIR-V gfx11-generic code object gfx906 code object"},
	{"spirvnew22.o", "object: (relocatable, of the new driver) amdgcnspirv bitcode gfx11-generic bitcode"},
	{"generic22.bundle", "offload bundle: () gfx11-generic code object gfx9-4-generic code object"},
	{"hip15.bundle", "offload bundle: () gfx906 code object gfx90a:xnack- code object"},
	{"hip19.bundle", "offload bundle: () gfx906 code object gfx90a:xnack- code object"},
	{"gfx90a.co", "code object: () gfx90a:xnack- code object"},
	{"version3.co", "code object: () code object"},
	{"gfx906.bc", "bitcode: () bitcode"},
	{"libboth.so", "shared library: () compute_80 sm_80 gfx1100 code object gfx906 code object gfx90a:xnack- code object"},
	{"libhip.a", "archive: a_member_with_a_rather_long_name.o(relocatable) gfx906 bitcode gfx90a:xnack- bitcode; whole.o() gfx906 code object"},
}

// The sizes are those of what clang-offload-bundler takes out.
func TestSizesInBundles(t *testing.T) {
	for name, want := range map[string][2]Image{
		"hip15.bundle": {{Size: 2688}, {Size: 4016}},
		"hip19.bundle": {{Unpacked: 3152}, {Unpacked: 4224}},
		"hiprdc15.o":   {{Size: 3248}, {Size: 3488}},
	} {
		images := imagesIn(t, testdata(t, name))
		for i := range want {
			if got := images[i]; got.Size != want[i].Size || got.Unpacked != want[i].Unpacked {
				t.Errorf("%s: %v has %d and %d bytes, want %d and %d", name, got, got.Size, got.Unpacked, want[i].Size, want[i].Unpacked)
			}
		}
	}
}

func imagesIn(t *testing.T, data []byte) []Image {
	t.Helper()
	f, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return f.Members[0].Images
}

// compressed makes a compressed bundle of any version and method. What is known of version 1 is
// LLVM's source alone.
func compressed(t *testing.T, version, method uint16, bundle []byte) []byte {
	t.Helper()
	var code bytes.Buffer
	var w io.WriteCloser = zlib.NewWriter(&code)
	if method == 1 {
		w, _ = zstd.NewWriter(&code)
	}
	if _, err := w.Write(bundle); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	out := le.AppendUint16(le.AppendUint16([]byte("CCOB"), version), method)
	switch size := code.Len(); version {
	case 1:
		out = le.AppendUint32(out, uint32(len(bundle)))
	case 3:
		out = le.AppendUint64(le.AppendUint64(out, uint64(32+size)), uint64(len(bundle)))
	default:
		out = le.AppendUint32(le.AppendUint32(out, uint32(24+size)), uint32(len(bundle)))
	}
	return append(append(out, "the hash"...), code.Bytes()...)
}

// All forms of a compressed bundle hold the same.
func TestCompressedBundles(t *testing.T) {
	plain := testdata(t, "hip15.bundle")
	want := describe(File{Members: []Member{{Images: imagesIn(t, plain)}}})
	for version := range uint16(3) {
		for method := range uint16(2) {
			images := imagesIn(t, compressed(t, version+1, method, plain))
			if got := describe(File{Members: []Member{{Images: images}}}); got != want || images[1].Unpacked != 4016 {
				t.Errorf("version %d, method %d: %s", version+1, method, got)
			}
		}
	}
}

// Bundles follow each other at multiples of their alignment. A compressed one of version 1 ends
// where the next one starts.
func TestManyBundles(t *testing.T) {
	plain := testdata(t, "hip15.bundle")
	old, older := compressed(t, 1, 1, plain), compressed(t, 1, 0, plain)
	var all []byte
	for _, b := range [][]byte{old, older, plain, old, testdata(t, "hip19.bundle"), plain} {
		all = append(all, make([]byte, -len(all)&(bundleAlign-1))...)
		all = append(all, b...)
	}
	for _, end := range []int{0, 1, 7, 8, 4096, 5001} {
		if images := imagesIn(t, append(bytes.Clone(all), make([]byte, end)...)); len(images) != 12 {
			t.Errorf("%d zeros at the end: %d images", end, len(images))
		}
	}
}

func TestWrongBundles(t *testing.T) {
	put := func(name string, at int, v uint64) []byte {
		data := testdata(t, name)
		binary.LittleEndian.PutUint64(data[at:], v)
		return data
	}
	plain, packed := testdata(t, "hip15.bundle"), testdata(t, "hip19.bundle")
	const first, second = bundleHeadSize, bundleHeadSize + bundleIDAt + len("host-x86_64-unknown-linux")
	table := func(offset, size, id uint64) []byte {
		out := binary.LittleEndian.AppendUint64(bytes.Clone(bundleMagic), 1)
		for _, v := range []uint64{offset, size, id} {
			out = binary.LittleEndian.AppendUint64(out, v)
		}
		return append(out, "hip-amdgcn-amd-amdhsa-gfx906"...)
	}
	stream := compressed(t, 2, 0, plain)
	half := len(stream) / 2
	tests := []struct {
		name, want string
		data       []byte
	}{
		{"cut short in its head", "cut short", plain[:30]},
		{"cut short in its table", "impossible sizes", plain[:100]},
		{"cut short in its code", "impossible sizes", plain[:len(plain)-1]},
		{"too many entries", "more than any real one", put("hip15.bundle", len(bundleMagic), 1<<40)},
		{"a place outside", "impossible sizes", put("hip15.bundle", second, 1<<40)},
		{"a place that overflows", "impossible sizes", put("hip15.bundle", second, 1<<63)},
		{"a size outside", "impossible sizes", put("hip15.bundle", second+8, ^uint64(0))},
		{"a long id", "impossible sizes", put("hip15.bundle", first+16, 1<<30)},
		{"an id over the end", "impossible sizes", table(0, 0, 29)},
		{"bytes behind it", "no header", append(bytes.Clone(plain), "some bytes that stand behind the bundle"...)},
		{"a few bytes behind it", "no header", append(bytes.Clone(plain), "bytes"...)},
		{"a compressed one cut short", "longer than its file", packed[:len(packed)-1]},
		{"its head alone", "cut short", packed[:20]},
		{"another version", "version 4", compressed(t, 4, 1, plain)},
		{"another method", "method 2", compressed(t, 2, 2, plain)},
		{"a size below its head", "longer than its file", slices.Concat([]byte("CCOB\x02\x00\x01\x00\x17\x00\x00\x00"), packed[12:])},
		{"impossible compression", "impossible sizes", slices.Concat(packed[:12], []byte("\xff\xff\xff\xff"), packed[16:])},
		{"a stream that is none", "magic number", slices.Concat(packed[:24], make([]byte, len(packed)-24))},
		{"a stream that ends", "EOF", slices.Concat(stream[:half], make([]byte, len(stream)-half))},
	}
	for _, tt := range tests {
		f, err := Read(tt.data)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v, want %s", tt.name, f, err, tt.want)
		}
	}
}

func TestTargets(t *testing.T) {
	tests := []struct{ id, want string }{
		{"hip-amdgcn-amd-amdhsa-gfx906", "gfx906"},
		{"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "gfx90a:xnack-"},
		{"hipv4-amdgcn-amd-amdhsa-unknown-gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"},
		{"hipv4-amdgcn-amd-amdhsa--gfx11-generic", "gfx11-generic"},
		{"hipv4-amdgcn-amd-amdhsa--gfx10-3-generic:xnack-", "gfx10-3-generic:xnack-"},
		{"amdgcn-amd-amdhsa--gfx1100", "gfx1100"},
		{"host-x86_64-unknown-linux", ""},
		{"openmp-amdgcn-amd-amdhsa--gfx906", ""},
		{"hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"},
		{"hipv4-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"},
		{"hip-spirv64-amd-amdhsa-unknown-amdgcnspirv", "amdgcnspirv"},
		{"hip-spirv64-amd-amdhsa--gfx906", ""},
		{"hip-amdgcn-amd-amdhsa--amdgcnspirv", ""},
		{"hip-amdgcn-amd-amdhsa", ""},
		{"hip-amdgcn-amd-amdhsa--gfx906:xnack", ""},
		{"", ""},
	}
	for _, tt := range tests {
		name, feature, ok := targetOf(tt.id)
		if name+feature != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: %s%s, %t, want %s", tt.id, name, feature, ok, tt.want)
		}
	}
}

// The last value counts, whatever kernels are called, and may be cut short at any place.
func TestMetadataTarget(t *testing.T) {
	const long, short = "amdgcn-amd-amdhsa--gfx90a:xnack-", "amdgcn-amd-amdhsa--gfx906"
	for _, tt := range []struct{ note, want string }{
		{"\xd9\x20" + long, long},
		{"\xb9" + short + "\xaeamdhsa.version", short},
		{"\xd9\x20" + long[:9], long[:9]},
		{"\xd9", ""},
		{"\xda\x00\x20" + long, ""},
		{"", ""},
	} {
		if got := metadataTarget([]byte("\xadamdhsa.target\xa6kernel\xadamdhsa.target" + tt.note)); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.note, got, tt.want)
		}
	}
	if got := metadataTarget([]byte("kernels")); got != "" {
		t.Error(got)
	}
}

// The entries are those of hipcc 7.0 for --offload-arch=amdgcnspirv, gfx11-generic and
// gfx9-4-generic.
func TestGenericsAndSPIRV(t *testing.T) {
	const elf, spirv = "\x7fELF and code", "\x03\x02\x23\x07 and code"
	bundle := bundleOf([2]string{"host-x86_64-unknown-linux-gnu", ""}, [2]string{"hipv4-spirv64-amd-amdhsa--amdgcnspirv", spirv},
		[2]string{"hipv4-amdgcn-amd-amdhsa--gfx11-generic", elf}, [2]string{"hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack-", elf})
	const want = "() amdgcnspirv SPIR-V gfx11-generic code object gfx9-4-generic:xnack- code object"
	for _, b := range [][]byte{bundle, compressed(t, 3, 1, bundle)} {
		f, err := Read(b)
		if err != nil || describe(f) != "offload bundle: "+want {
			t.Errorf("%s, %v", describe(f), err)
		}
		lacks := f.Lacks([]gencode.Code{{Kind: gencode.GFX, Name: "amdgcnspirv"}, {Kind: gencode.GFX, Name: "gfx11-generic"}, {Kind: gencode.GFX, Name: "gfx1100"}})
		if len(lacks) != 1 || lacks[0].Name != "gfx1100" {
			t.Errorf("it lacks %v", lacks)
		}
	}
	odd := bundleOf([2]string{"hip-spirv64-amd-amdhsa--amdgcnspirv", elf})
	if images := imagesIn(t, odd); len(images) != 0 && images[0].Kind == gencode.SPIRV {
		t.Errorf("an ELF file is SPIR-V: %v", images)
	}
}

// bundleOf is a bundle of entries, each an id and its code.
func bundleOf(entries ...[2]string) []byte {
	le, at := binary.LittleEndian, bundleHeadSize
	for _, e := range entries {
		at += bundleIDAt + len(e[0])
	}
	out, code := le.AppendUint64(bytes.Clone(bundleMagic), uint64(len(entries))), ""
	for _, e := range entries {
		out = le.AppendUint64(le.AppendUint64(out, uint64(at+len(code))), uint64(len(e[1])))
		out = append(le.AppendUint64(out, uint64(len(e[0]))), e[0]...)
		code += e[1]
	}
	return append(out, code...)
}
