package fatbin

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// ClangPlace is where clang writes device code into an object: one section has only the code, and
// one has the record that points to it.
type ClangPlace struct {
	what             string
	magics           [][]byte // of the code
	section, wrapper string   // without a wrapper, every object has the section
	align            uint64
}

// The sections of HIP, and the alignment of its code.
const (
	bundleSection  = ".hip_fatbin"
	bundlesWrapper = ".hipFatBinSegment"
	bundleAlign    = 4096
)

// Magic numbers of bundles of device code.
var (
	bundleMagic           = []byte("__CLANG_OFFLOAD_BUNDLE__")
	compressedBundleMagic = []byte("CCOB")
)

// The places of final HIP code, of final CUDA code (for nvcc's objects, see WithFatbin), and of
// relocatable code of the new offload driver.
var (
	BundleCode = ClangPlace{"bundle of device code", [][]byte{bundleMagic, compressedBundleMagic},
		bundleSection, bundlesWrapper, bundleAlign}
	CUDACode    = ClangPlace{"fatbin", [][]byte{fatbinMagic}, finalSection, wrapperSection, 8}
	OffloadCode = ClangPlace{"offload binary", [][]byte{offloadMagic}, offloadingSection, "", 8}
)

// Fill puts device code into an object that clang compiled with a placeholder instead. The host
// compiler can then run concurrently with the device compilers. The result is byte for byte the
// object that clang writes for the code itself. An object without kernels and device variables has
// no section for final code and is returned unchanged. An error reports an object that cannot take
// the code. Host code with the same literal as the placeholder would point to it as well.
//
// The placeholder is the content of the file that clang gets by -fcuda-include-gpubinary. Clang
// does not parse that file. Clang 15 treats the content as a string literal, with a 0 byte at its
// end, and merges equal literals; so no program may contain the placeholder. Clang 19 writes the
// content unchanged.
func (p ClangPlace) Fill(object []byte, placeholder string, code []byte) ([]byte, error) {
	if !slices.ContainsFunc(p.magics, func(m []byte) bool { return bytes.HasPrefix(code, m) }) {
		return nil, fmt.Errorf("what is to be put into the object is no %s", p.what)
	}
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	at, err := o.only(p.section)
	wrapper, pointers := -1, 0
	if p.wrapper != "" {
		var err2 error
		wrapper, err2 = o.only(p.wrapper)
		err, pointers = cmp.Or(err, err2), 1
	}
	switch err := cmp.Or(o.machineCode(), err); {
	case err != nil:
		return nil, err
	case at < 0 && p.wrapper != "" && wrapper < 0:
		return object, nil
	case at < 0:
		return nil, fmt.Errorf("it has no section %s", p.section)
	}
	if p.wrapper != "" { // the type of the other section is one of LLVM's own since clang 17
		err = o.plain(at)
	}
	if err = cmp.Or(err, o.alone(at, p.align, "")); err != nil {
		return nil, fmt.Errorf("section %s: %w", p.section, err)
	}
	end, ok := bytes.CutPrefix(o.content(at), []byte(placeholder))
	literal := p.wrapper != "" && bytes.Equal(end, []byte{0})
	if !ok || len(end) > 0 && !literal {
		return nil, fmt.Errorf("section %s: want exactly the placeholder", p.section)
	}
	from, err := o.pointers(at)
	switch {
	case err != nil:
		return nil, fmt.Errorf("section %s: %w", p.section, err)
	case len(from) != pointers || pointers > 0 && from[0] != wrapper:
		return nil, fmt.Errorf("section %s: want %d pointers to it from %q, got %d from sections %d", p.section, pointers, p.wrapper, len(from), from)
	}
	return o.replace(at, append(bytes.Clone(code), end...))
}
