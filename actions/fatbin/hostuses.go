package fatbin

import (
	"debug/elf"
	"slices"
	"strings"
)

// registersAll is part of the name of the function that runs before main. The optimizer inlines the
// registrar into it.
const registersAll = "__sti____cudaRegisterAll"

// HostUses reports whether the host code of an object refers to a local variable that wanted
// accepts. References that register the variable with the CUDA runtime do not count. HostUses
// returns false if the object cannot be read.
func HostUses(object []byte, wanted func(symbol string) bool) bool {
	o, err := parseRelocatable(object)
	if err != nil {
		return false
	}
	all, err := o.symbols()
	if err != nil {
		return false
	}
	var variables, registrars []symbol
	for _, s := range all {
		switch {
		case s.section == 0 || s.section >= specialSection:
		case elf.ST_TYPE(s.info) == elf.STT_FUNC && (strings.Contains(s.name, registrar) || strings.Contains(s.name, registersAll)):
			registrars = append(registrars, s)
		case elf.ST_TYPE(s.info) == elf.STT_OBJECT && elf.ST_BIND(s.info) == elf.STB_LOCAL && wanted(s.name):
			variables = append(variables, s)
		}
	}
	if len(variables) == 0 {
		return false
	}
	for i := range o.sections {
		if elf.SectionFlag(o.sections[i].Flags)&elf.SHF_ALLOC == 0 {
			continue
		}
		for _, n := range o.relocationsOf(i) {
			relocations, err := o.relocations(n)
			if err != nil {
				return false
			}
			for _, r := range relocations {
				if slices.ContainsFunc(registrars, func(s symbol) bool { return s.has(i, r.offset) }) {
					continue
				}
				to := all[r.symbol]
				at := to.value + uint64(r.addend)
				if o.machine == elf.EM_X86_64 && relativeToNext[elf.R_X86_64(r.kind)] {
					at += 4
				}
				if slices.ContainsFunc(variables, func(v symbol) bool { return v.has(to.section, at) }) {
					return true
				}
			}
		}
	}
	return false
}

// has reports whether a symbol covers an offset of a section.
func (s symbol) has(section int, offset uint64) bool {
	return s.section == section && offset-s.value < max(s.size, 1)
}

// relativeToNext are the relocations whose addend is reduced by 4, since the processor counts from
// the end of the instruction.
var relativeToNext = map[elf.R_X86_64]bool{elf.R_X86_64_PC32: true, elf.R_X86_64_PLT32: true, elf.R_X86_64_GOTPCREL: true,
	elf.R_X86_64_GOTPCRELX: true, elf.R_X86_64_REX_GOTPCRELX: true}
