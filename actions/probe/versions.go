package probe

import (
	"path/filepath"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
)

// versions returns the versions of the code that the toolkit generates. It reads them from the PTX
// and LTO-IR of an empty source, and from machine code assembled from that PTX. The toolkit's
// linker rejects newer versions; for newer LTO-IR it prints only "elfLink nvvm error".
func (w *hostEnv) versions(k *cuda.Toolkit, ptx, ltoir string) map[gencode.Kind]gencode.Version {
	cubin := filepath.Join(filepath.Dir(ptx), "a.cubin")
	// If ptxas fails, the version of machine code stays unknown.
	w.answer(k.Programs["ptxas"], "-arch="+k.Archs[0].String(), "-m64", ptx, "-o", cubin)
	makes := map[gencode.Kind]gencode.Version{}
	for kind, file := range map[gencode.Kind]string{gencode.PTX: ptx, gencode.LTO: ltoir, gencode.SASS: cubin} {
		code, err := regular.Read(file)
		w.note(err)
		if v := fatbin.VersionOf(kind, code); v != (gencode.Version{}) {
			makes[kind] = v
		}
	}
	return makes
}
