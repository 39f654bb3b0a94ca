package probe

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"os"
	"path/filepath"
)

// GNU ar loads all plugins that lie in a folder of its installation, and asks each of them for the
// names in objects of intermediate code: these stand in the index of the archive. The libraries
// behind LLVM's plugin are 100 MB for each version that is installed. They are told apart by the
// digest that their linker left in them, the build-id, since reading them would take longer than
// all else that is asked of ar.

// plugins are the plugins of an ar, by role, and the libraries that they need, by what tells these
// apart.
func (w *world) plugins(ar string) (parts, libs map[string]string) {
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
			w.watch(filepath.Join(dir, "../lib")) // $ORIGIN/../lib of LLVM's, by the name of the link
			for name, file := range w.sharedLibs(plugin) {
				libs[role+" "+name+" "+w.buildID(file)] = file
			}
		}
	}
	return parts, libs
}

// buildID is what the linker said of the content of an ELF file, or else a digest of it; "" without
// a file.
func (w *world) buildID(file string) string {
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
	w.note(err)
	return d
}
