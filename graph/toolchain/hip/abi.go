package hip

import (
	"fmt"
	"strconv"
	"strings"
)

// A clang may find the device libraries of another ROCm release. It rejects them if they are older
// than the ABI of its code objects: version 6 from clang 20 on, which ROCm has since 6.3. clang 22
// on Debian 13, whose ROCm is 6.0, prints "cannot find ROCm device library for ABI version 6, which
// requires ROCm 6.3 or higher".

const forABI = "cannot find ROCm device library for ABI version "

// OldLibs reports whether the output has that message, and returns the fix. major is clang's.
func OldLibs(printed string, major int) (fix string, ok bool) {
	_, rest, ok := strings.Cut(printed, forABI)
	if !ok {
		return "", false
	}
	number, _, _ := strings.Cut(rest, ",")
	needs := "newer device libraries"
	if _, release, known := strings.Cut(rest, "requires ROCm "); known {
		release, _, _ = strings.Cut(release, " ")
		needs = "those of ROCm " + release + " or newer"
	}
	older := ""
	if n, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && n > 1 {
		older = fmt.Sprintf(`, or set flags = { hip = ["-mcode-object-version=%d"] }`, n-1)
	}
	return fmt.Sprintf("clang %d makes code objects of ABI version %s, for which the device libraries that it finds are too old. Install %s (on Debian and Ubuntu: apt install %s), set HIP_DEVICE_LIB_PATH to theirs%s.",
		major, strings.TrimSpace(number), needs, LibsPackage(major), older), true
}
