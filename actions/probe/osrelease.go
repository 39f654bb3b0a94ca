package probe

import (
	"os"
	"strings"
)

// osRelease returns the text of the distribution's os-release file.
func osRelease() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		text, _ = os.ReadFile("/usr/lib/os-release")
	}
	return string(text)
}

// installHIP returns how to install HIP's compiler on a distribution. The packages are named with
// their versions. An unversioned lld or clang may belong to another LLVM than hipcc, and hipcc's
// clang would run it (hiptrial.go).
func installHIP(osRelease string) string {
	about := map[string]string{}
	for _, line := range strings.Split(osRelease, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		about[name] = strings.Trim(value, `"'`)
	}
	with := func(major string) string {
		return about["PRETTY_NAME"] + ": apt install hipcc rocm-device-libs-" + major + " clang-" + major + " lld-" + major + " libamdhip64-dev"
	}
	switch about["ID"] + " " + about["VERSION_ID"] {
	case "debian 12":
		return about["PRETTY_NAME"] + ": apt install hipcc rocm-device-libs clang-15 lld-15 libamdhip64-dev"
	case "debian 13", "ubuntu 24.04":
		return with("17")
	case "debian ", "debian 14": // forky and sid
		return with("21")
	case "debian 11", "ubuntu 20.04", "ubuntu 22.04":
		return about["PRETTY_NAME"] + " has no package of it: see rocm.docs.amd.com for AMD's own packages"
	}
	if strings.Contains(about["ID"]+" "+about["ID_LIKE"], "debian") {
		return "on Debian and Ubuntu: apt install hipcc libamdhip64-dev, which bring a clang with its linker and device libraries"
	}
	return "see rocm.docs.amd.com"
}
