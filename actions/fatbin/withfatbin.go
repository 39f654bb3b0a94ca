package fatbin

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The sections that nvcc writes device code to: the first is not linked yet, the second is final.
const (
	linkableSection = "__nv_relfatbin"
	finalSection    = ".nv_fatbin"
)

// WithFatbin replaces the fatbin of an object that was compiled with another one. The host compiler
// can then run concurrently with the device compilers. object has one section of device code,
// __nv_relfatbin or .nv_fatbin, with the one symbol fatbinData at its start. The sections keep
// their order and are laid out as GNU as does it. So the result is byte for byte the object that
// the compiler writes for the fatbin itself. An error reports an object that cannot take a fatbin.
func WithFatbin(object, fatbin []byte) ([]byte, error) {
	if !bytes.HasPrefix(fatbin, fatbinMagic) {
		return nil, errors.New("what is to be put into the object is no fatbin")
	}
	o, err := parseRelocatable(object)
	if err != nil {
		return nil, err
	}
	if err := o.machineCode(); err != nil {
		return nil, err
	}
	at, err := o.deviceSection()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(o.plain(at), o.alone(at, 8, "fatbinData")); err != nil {
		return nil, fmt.Errorf("section %s: %w", o.sections[at].label, err)
	}
	fill := -len(fatbin) & 7 // the compiler writes words of 8 bytes
	return o.replace(at, append(bytes.Clone(fatbin), make([]byte, fill)...))
}

func (o *relocatable) deviceSection() (int, error) {
	linkable, err := o.only(linkableSection)
	if err != nil {
		return 0, err
	}
	final, err := o.only(finalSection)
	switch {
	case err != nil:
		return 0, err
	case linkable >= 0 && final >= 0:
		return 0, fmt.Errorf("it has both sections %s and %s", linkableSection, finalSection)
	case linkable < 0 && final < 0:
		return 0, errors.New("it has no section of device code")
	}
	return max(linkable, final), nil
}

// alone checks that nothing in the object depends on the content of the section. The section must
// have the one symbol name, or no named symbol if name is "".
func (o *relocatable) alone(at int, align uint64, name string) error {
	if o.sections[at].Addralign < align {
		return fmt.Errorf("it is not aligned to %d bytes", align)
	}
	if len(o.relocationsOf(at)) > 0 {
		return errors.New("it has relocations")
	}
	if err := o.onlySymbol(at, name); err != nil {
		return err
	}
	_, err := o.pointers(at)
	return err
}

// onlySymbol checks that a section has only its own symbol, which has no name, and the named one if
// name is not "".
func (o *relocatable) onlySymbol(at int, name string) error {
	symbols, err := o.symbols()
	named := 0
	for _, s := range symbols {
		kind, bind := elf.ST_TYPE(s.info), elf.ST_BIND(s.info)
		switch {
		case s.section != at:
		case s.value != 0 || s.size != 0 || bind != elf.STB_LOCAL || kind != elf.STT_SECTION && (s.name != name || name == ""):
			return fmt.Errorf("it has another symbol than %s: %s", cmp.Or(name, "its own"), s.name)
		case kind != elf.STT_SECTION:
			named++
		}
	}
	if err == nil && name != "" && named != 1 {
		err = fmt.Errorf("it has %d symbols %s", named, name)
	}
	return err
}

// pointers returns the sections that contain relocations against symbols of a section, once for
// each relocation. All of them must refer to the start of that section.
func (o *relocatable) pointers(at int) (from []int, err error) {
	symbols, err := o.symbols()
	if err != nil {
		return nil, err
	}
	for i := range o.sections {
		if elf.SectionType(o.sections[i].Type) != elf.SHT_RELA {
			continue
		}
		list, err := o.relocations(i)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if symbols[r.symbol].section != at {
				continue
			}
			if r.addend != 0 {
				return nil, fmt.Errorf("%s points into its middle", o.sections[i].label)
			}
			from = append(from, int(o.sections[i].Info))
		}
	}
	return from, nil
}

// replace rebuilds the object with other content in one section. Padding between sections is 0.
func (o *relocatable) replace(at int, content []byte) ([]byte, error) {
	laid, total, err := o.layout(at, uint64(len(content)))
	if err != nil {
		return nil, err
	}
	out := make([]byte, total)
	copy(out, o.data[:elfHeaderSize])
	headers := laid[len(o.sections)]
	binary.LittleEndian.PutUint64(out[0x28:], headers.Off)
	copy(out[headers.Off:], o.data[o.headers:][:headers.Size])
	for i := 1; i < len(o.sections); i++ {
		if i == at {
			copy(out[laid[i].Off:], content)
		} else {
			copy(out[laid[i].Off:], o.content(i))
		}
		h := out[headers.Off+sectionHeaderSize*uint64(i):]
		binary.LittleEndian.PutUint64(h[0x18:], laid[i].Off)
		binary.LittleEndian.PutUint64(h[0x20:], laid[i].Size)
	}
	return out, nil
}

// layout assigns offsets to the sections, in file order, with another size for one of them. It
// returns the sections, then their header table, and the size of the file.
func (o *relocatable) layout(at int, size uint64) (laid []objectSection, total uint64, err error) {
	laid = append(slices.Clone(o.sections), o.place(len(o.sections)))
	limit := 2*uint64(len(o.data)) + size // alignment adds less than the aligned size
	total = elfHeaderSize
	for _, i := range o.order {
		s := &laid[i]
		if i == at {
			s.Size = size
		}
		var ok bool
		if total, ok = alignUp(total, s.alignment()); !ok || total > limit {
			return nil, 0, fmt.Errorf("section %s has an impossible alignment", s.label)
		}
		s.Off = total
		total += s.fileSize()
	}
	return laid, total, nil
}

// alignment returns the alignment that the section's file offset keeps. It is less than the address
// requires if the original offset was less aligned.
func (s *objectSection) alignment() uint64 {
	if align := s.Addralign; align > 1 && s.Off%align == 0 {
		return align
	}
	return 1
}

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
