package toolchain

import "strings"

// NativeCPU reports an option that has a compiler make code for the processor of the machine that it runs on.
func NativeCPU(options []string) bool {
	for _, o := range options {
		if strings.Contains(o, "-march=native") || strings.Contains(o, "-mtune=native") || strings.Contains(o, "-mcpu=native") {
			return true
		}
	}
	return false
}
