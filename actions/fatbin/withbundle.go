package fatbin

import (
	"bytes"
	"errors"
	"fmt"
)

// clangPlace names the sections of an object that clang writes final device code to. One has only
// the code, and one has the record that points to it.
type clangPlace struct {
	section, wrapper string
	align            uint64
}

// The sections of HIP, and the alignment of its code.
const (
	bundleSection  = ".hip_fatbin"
	bundlesWrapper = ".hipFatBinSegment"
	bundleAlign    = 4096
)

var (
	bundlePlace = clangPlace{bundleSection, bundlesWrapper, bundleAlign}
	fatbinPlace = clangPlace{finalSection, wrapperSection, 8}
)

// Magic numbers of bundles of device code.
var (
	bundleMagic           = []byte("__CLANG_OFFLOAD_BUNDLE__")
	compressedBundleMagic = []byte("CCOB")
)

// WithBundle puts a bundle of HIP code into an object that clang compiled with a placeholder
// instead. The host compiler can then run concurrently with the device compilers. The result is
// byte for byte the object that clang writes for the bundle itself. An object without kernels and
// device variables has no section for a bundle and is returned unchanged. An error reports an
// object that cannot take a bundle.
//
// The placeholder is the content of the file that clang gets by -fcuda-include-gpubinary. Clang
// does not parse that file. Clang 15 treats the content as a string literal, with a 0 byte at its
// end, and merges equal literals; so no program may contain the placeholder. Clang 19 writes the
// content unchanged.
func WithBundle(object []byte, placeholder string, bundle []byte) ([]byte, error) {
	if !bytes.HasPrefix(bundle, bundleMagic) && !bytes.HasPrefix(bundle, compressedBundleMagic) {
		return nil, errors.New("what is to be put into the object is no bundle of device code")
	}
	return bundlePlace.fill(object, placeholder, bundle)
}

// WithClangFatbin is WithBundle for CUDA that clang compiled: it replaces the placeholder by a
// fatbin. (For nvcc's objects, see WithFatbin.)
func WithClangFatbin(object []byte, placeholder string, fatbin []byte) ([]byte, error) {
	if !bytes.HasPrefix(fatbin, fatbinMagic) {
		return nil, errors.New("what is to be put into the object is no fatbin")
	}
	return fatbinPlace.fill(object, placeholder, fatbin)
}

// WithOffloading is WithBundle for relocatable code of clang's new offload driver: it replaces the
// placeholder by OffloadBinaries. Every object has the section, and nothing points to it.
func WithOffloading(object []byte, placeholder string, code []byte) ([]byte, error) {
	if !bytes.HasPrefix(code, offloadMagic) {
		return nil, errors.New("what is to be put into the object is no offload binary")
	}
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	if err := o.machineCode(); err != nil {
		return nil, err
	}
	at, err := o.only(offloadingSection)
	switch {
	case err != nil:
		return nil, err
	case at < 0:
		return nil, fmt.Errorf("it has no section %s", offloadingSection)
	case o.sections[at].fileSize() == 0 || string(o.content(at)) != placeholder:
		return nil, fmt.Errorf("section %s does not hold the placeholder, and nothing else", offloadingSection)
	}
	if err := o.alone(at, 8, ""); err != nil { // its type is one of LLVM's own since clang 17
		return nil, fmt.Errorf("section %s: %w", offloadingSection, err)
	}
	if from, err := o.pointers(at); err != nil || len(from) > 0 {
		return nil, fmt.Errorf("something points to section %s", offloadingSection)
	}
	return o.replace(at, code)
}

// fill replaces the placeholder by device code.
func (p clangPlace) fill(object []byte, placeholder string, code []byte) ([]byte, error) {
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	if err := o.machineCode(); err != nil {
		return nil, err
	}
	at, err := o.only(p.section)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return p.none(o)
	}
	end, err := p.held(o, at, placeholder)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", p.section, err)
	}
	return o.replace(at, append(bytes.Clone(code), end...))
}

// none handles an object that refers to no device code.
func (p clangPlace) none(o *relocatable) ([]byte, error) {
	wrapper, err := o.only(p.wrapper)
	if err == nil && wrapper >= 0 {
		err = fmt.Errorf("it has %s and no section %s", p.wrapper, p.section)
	}
	return o.data, err
}

// held checks that a section has only the placeholder, and that one record points to it. Host code
// with the same literal would point to it as well. held returns the bytes that clang wrote after
// the placeholder: the 0 byte that ends a literal, or nothing.
func (p clangPlace) held(o *relocatable, at int, want string) (end []byte, err error) {
	if err := o.replaceable(at, p.align, ""); err != nil {
		return nil, err
	}
	end, ok := bytes.CutPrefix(o.content(at), []byte(want))
	if !ok || len(end) > 1 || len(end) == 1 && end[0] != 0 {
		return nil, errors.New("it does not hold the placeholder, and nothing else")
	}
	wrapper, err := o.only(p.wrapper)
	if err != nil {
		return nil, err
	}
	from, err := o.pointers(at)
	if err != nil {
		return nil, err
	}
	if len(from) != 1 || from[0] != wrapper {
		return nil, fmt.Errorf("something else than %s points to it, or nothing", p.wrapper)
	}
	return end, nil
}
