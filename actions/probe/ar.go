package probe

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// archiver identifies ar. GNU ar loads all plugins in a folder of its installation. It queries each
// of them for the symbols of intermediate-code objects, which enter the index of the archive. The
// libraries behind LLVM's plugin are 100 MB for each installed version. They are identified by
// their build-id, which the linker wrote, since reading them would take longer than all other
// queries of ar.
func archiver(f *find.Finder, h *hostEnv) toolchain.Tool {
	ar := f.Lookup("ar")
	if ar == "" {
		return toolchain.Tool{Error: "ar was not found in PATH; install binutils."}
	}
	parts := f.Libraries(ar)
	parts["driver"] = ar
	var texts, libs []string
	for _, lib := range []string{"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"} {
		dir := filepath.Join(f.RealDir(ar), "..", lib, "bfd-plugins")
		for _, name := range f.List(dir) {
			plugin, role := filepath.Join(dir, name), "plugin "+lib+"/"+name
			if !f.Exists(plugin) {
				continue
			}
			parts[role] = plugin
			// LLVM's plugin finds its libraries in $ORIGIN/../lib, relative to the link's name.
			f.List(filepath.Join(dir, "../lib"))
			for name, file := range f.Libraries(plugin) {
				texts = append(texts, role+" "+name+" "+h.buildID(file))
				if file != "" {
					libs = append(libs, file)
				}
			}
		}
	}
	id, err := f.Identify(parts, slices.Sorted(slices.Values(texts))...)
	if err != nil {
		return toolchain.Tool{Error: err.Error()}
	}
	f.Covers[id] = append(f.Covers[id], libs...)
	return toolchain.Tool{Path: ar, Version: f.Dotted(ar), ID: id}
}

// buildID returns the build-id of an ELF file, or a digest of the file if it has none. It returns
// "" without a file.
func (h *hostEnv) buildID(file string) string {
	if file == "" {
		return ""
	}
	h.reads(file)
	if f, err := elf.Open(file); err == nil {
		defer f.Close()
		if s := f.Section(".note.gnu.build-id"); s != nil {
			if note, err := s.Data(); err == nil && len(note) > 16 && bytes.Equal(note[12:16], []byte("GNU\x00")) {
				return hex.EncodeToString(note[16:])
			}
		}
	}
	d, err := h.digest(file)
	if h.note(err); err != nil {
		return ""
	}
	return d.String()
}
