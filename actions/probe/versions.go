package probe

import (
	"path/filepath"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// versions are those of the code that the toolkit makes: of PTX and LTO-IR of an empty text, and of
// machine code of that PTX. Its linker takes none that is newer, and of newer LTO-IR it says
// "elfLink nvvm error" and no more.
func (w *world) versions(k *plan.Toolkit, ptx, ltoir string) map[gencode.Kind]gencode.Version {
	cubin := filepath.Join(filepath.Dir(ptx), "a.cubin")
	w.answer(k.Programs["ptxas"], "-arch="+k.Archs[0].String(), "-m64", ptx, "-o", cubin) // without it nothing is known of machine code
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
