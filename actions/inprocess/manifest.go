package inprocess

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/kbuild-dev/kbuild/actions/modules"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph/modinfo"
)

// writeManifest writes the manifest of a module, which describes its artifacts.
func writeManifest(w Work) error {
	var m modinfo.Manifest
	if err := json.Unmarshal([]byte(*w.Work.Manifest), &m); err != nil {
		return fmt.Errorf("BUG: the manifest of %s: %w", w.Target, err)
	}
	m.InputDigest, m.Kbuild = w.MadeFrom, cache.KeyVersion
	symbols, dir := w.Argv[1:], path.Dir(w.Outputs[0])
	for i := range m.Artifacts {
		art := &m.Artifacts[i]
		err := w.describe(art, path.Join(dir, art.File))
		// its symbols are in the PTX that was built beside it
		if err == nil && art.Kind == "ltoir" {
			var text []byte
			if text, err = w.read(symbols[0]); err == nil {
				art.LTOSymbols, err = modules.LTOSymbols(text)
			}
			symbols = symbols[1:]
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path.Join(dir, art.File), err)
		}
	}
	m.Complete()
	return w.write(0, m.Encode())
}

// describe fills in art from the artifact's file.
func (w Work) describe(art *modinfo.Artifact, name string) error {
	file, err := w.read(name)
	if err != nil {
		return err
	}
	found, err := modules.Describe(file)
	if err != nil {
		return err
	}
	if found.Kind != art.Kind || !modules.SameArch(art.Kind, art.Arch, found.Arch) {
		return fmt.Errorf("it should be %s %s, and is %s %s", art.Kind, art.Arch, found.Kind, found.Arch)
	}
	found.File, found.Arch = art.File, art.Arch
	*art = found
	return nil
}
