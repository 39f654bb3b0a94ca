package object

import "fmt"

// The sections with device code: of relocatable and of whole code.
const (
	relocatable = "__nv_relfatbin"
	whole       = ".nv_fatbin"
)

// WithFatbin gives the host object with fatbin in place of the device code that it was compiled with. There must be
// one section of device code, and nothing that points behind its start. The new content stands at the end of the
// file; the old one stays as a gap that nothing names.
func WithFatbin(host, fatbin []byte) ([]byte, error) {
	o, err := parse(host)
	if err != nil {
		return nil, err
	}
	at := 0
	for i, s := range o.sections {
		if s.name != relocatable && s.name != whole || len(s.data) == 0 {
			continue
		}
		if at != 0 {
			return nil, fmt.Errorf("the host object has two sections of device code")
		}
		at = i
	}
	if at == 0 {
		return nil, fmt.Errorf("the host object has no section for device code")
	}
	if err := o.startOnly(at); err != nil {
		return nil, err
	}
	const align = 16
	out := make([]byte, 0, len(host)+align+len(fatbin))
	out = append(out, host...)
	for len(out)%align != 0 {
		out = append(out, 0)
	}
	head := out[order.Uint64(host[40:])+uint64(at)*sectionSize:]
	order.PutUint64(head[24:], uint64(len(out)))
	order.PutUint64(head[32:], uint64(len(fatbin)))
	return append(out, fatbin...), nil
}

// startOnly checks that symbols of a section are at its start and that no relocation changes it.
func (o *object) startOnly(at int) error {
	for _, s := range o.sections {
		if s.kind() == typeRela && s.info() == at {
			return fmt.Errorf("the device code of the host object has relocations")
		}
	}
	syms, err := o.symbols()
	if err != nil {
		return err
	}
	for _, s := range syms {
		if s.section == at && s.value != 0 {
			return fmt.Errorf("%s points into the device code of the host object", s.name)
		}
	}
	return nil
}
