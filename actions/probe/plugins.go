package probe

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"os"
	"path/filepath"
)

// GNU ar loads all plugins in a folder of its installation. It queries each of them for the symbols
// of intermediate-code objects, which enter the index of the archive. The libraries behind LLVM's
// plugin are 100 MB for each installed version. They are identified by their build-id, which the
// linker wrote, since reading them would take longer than all other queries of ar.

// plugins returns the plugins of an ar by role, and the libraries that they need by build-id.
func (w *hostEnv) plugins(ar string) (parts, libs map[string]string) {
	parts, libs = map[string]string{}, map[string]string{}
	bin := realDir(ar)
	for _, lib := range []string{"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"} {
		dir := filepath.Join(bin, "..", lib, "bfd-plugins")
		w.watch(dir)
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			plugin, role := filepath.Join(dir, f.Name()), "plugin "+lib+"/"+f.Name()
			if !w.there(plugin) {
				continue
			}
			parts[role] = plugin
			// LLVM's plugin finds its libraries in $ORIGIN/../lib, relative to the link's name.
			w.watch(filepath.Join(dir, "../lib"))
			for name, file := range w.sharedLibs(plugin) {
				libs[role+" "+name+" "+w.buildID(file)] = file
			}
		}
	}
	return parts, libs
}

// buildID returns the build-id of an ELF file, or a digest of the file if it has none. It returns
// "" without a file.
func (w *hostEnv) buildID(file string) string {
	if file == "" {
		return ""
	}
	w.reads(file)
	if f, err := elf.Open(file); err == nil {
		defer f.Close()
		if s := f.Section(".note.gnu.build-id"); s != nil {
			if note, err := s.Data(); err == nil && len(note) > 16 && bytes.Equal(note[12:16], []byte("GNU\x00")) {
				return hex.EncodeToString(note[16:])
			}
		}
	}
	d, err := w.digest(file)
	if w.note(err); err != nil {
		return ""
	}
	return d.String()
}
