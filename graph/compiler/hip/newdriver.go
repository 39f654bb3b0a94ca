package hip

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/compiler/clang"
)

// Clang has two ways to combine host and device code. With the old driver, the default for HIP up to clang 22, an object is a bundle, or
// holds one, and the link unbundles it. With the new one (--offload-new-driver; the default for HIP from 23 on) an object holds
// relocatable device code in the section .llvm.offloading, which clang-linker-wrapper alone reads. A link takes objects of its own
// driver and passes over those of the other, with exit status 0.

// ErrNewDriver says that a command is one of the new driver's, which kbuild does not take apart.
var ErrNewDriver = errors.New("clang runs its new offload driver")

// The options that choose the driver; the last one counts.
const (
	newDriver   = "--offload-new-driver"
	noNewDriver = "--no-offload-new-driver"
)

// ChoosesDriver gives the last of flags that chooses a driver, "" for none, and whether that is the new one.
func ChoosesDriver(flags []string) (option string, isNew bool) {
	for _, f := range flags {
		if f == newDriver || f == noNewDriver {
			option = f
		}
	}
	return option, option == newDriver
}

// newDriverTools pack device code for the new driver, or link it. clang-offload-packager is llvm-offload-binary since 22.
var newDriverTools = []string{"clang-offload-packager", "llvm-offload-binary", "clang-linker-wrapper"}

// NewDriver reports steps of the new driver.
func NewDriver(h clang.Steps) bool {
	return slices.ContainsFunc(h.Steps, func(argv []string) bool {
		return slices.Contains(newDriverTools, path.Base(argv[0])) ||
			slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, "-fembed-offload-object=") })
	})
}
