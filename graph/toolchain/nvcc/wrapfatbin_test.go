package nvcc

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The object has what nvlink reads, the fatbin under whatever name, and no symbol that two of them
// would share.
func TestWrapFatbin(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	const fatbin = `a "quoted" \ name.fatbin`
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(fatbin, "0123456789")
	write("device.c", WrapFatbin(fatbin, "_1_x"))
	cmd := exec.Command(gcc, "-Wall", "-Werror", "-fPIC", "-c", "device.c", "-o", "device.o")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(filepath.Join(dir, "device.o"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]string{"__nv_relfatbin": "0123456789\x00\x00\x00\x00\x00\x00", "__nv_module_id": "_1_x\x00", ".nvHRKE": "\x00", ".nvHRCI": "\x00"} {
		if f.Section(name) == nil {
			t.Fatalf("no section %s", name)
		}
		if got, err := f.Section(name).Data(); string(got) != want {
			t.Errorf("section %s holds %q, %v", name, got, err)
		}
	}
	if s := f.Section(".nvFatBinSegment"); s == nil || s.Size != 24 {
		t.Errorf("the wrapper: %+v", s)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if shared := elf.ST_BIND(s.Info) == elf.STB_GLOBAL && elf.ST_VISIBILITY(s.Other) != elf.STV_HIDDEN; shared && s.Name != "_GLOBAL_OFFSET_TABLE_" {
			t.Errorf("%s is seen by other libraries", s.Name)
		}
	}
}
