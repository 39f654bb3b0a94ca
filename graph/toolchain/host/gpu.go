package host

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// hip is the language name for -x.
const hip = "hip"

// gpuOptions lists prefixes of clang options for HIP that affect only the output of its passes. All
// other options with two dashes are rejected.
var gpuOptions = []string{"--offload-new-driver", "--no-offload-new-driver", "--offload-compress", "--no-offload-compress", "--rocm-path=", "--hip-path=",
	"--rocm-device-lib-path=", "--hip-device-lib-path=", "--hip-version=", "--gpu-max-threads-per-block="}

// isArch reports whether an option selects architectures of HIP.
func isArch(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return name == "--offload-arch" || name == "--cuda-gpu-arch"
}

// gpuOption parses a GPU option. ok is false if it is none.
func (r *commandReader) gpuOption(arg string) (ok bool, err error) {
	name, value, _ := strings.Cut(arg, "=")
	starts := func(start string) bool { return strings.HasPrefix(arg, start) }
	switch {
	case isArch(arg):
		r.Archs = append(r.Archs, strings.Split(value, ",")...)
	case arg == "-fgpu-rdc", arg == "-fno-gpu-rdc":
		r.rdc = arg == "-fgpu-rdc"
	case arg == "-foffload-lto":
		r.offloadLTO = true
	case arg == "-fno-offload-lto", starts("-foffload-lto="), starts("-Xarch_") && arg != "-Xarch_host" && arg != "-Xarch_device":
		return false, fmt.Errorf("%s is not taken apart", arg)
	case name == "-cuid":
		r.ID = value
	case starts("-fuse-cuid="):
		return false, fmt.Errorf("%s names the source, which kbuild does itself", arg)
	case slices.ContainsFunc(gpuOptions, starts):
	default:
		return false, nil
	}
	r.Argv = append(r.Argv, arg)
	return true, nil
}

// isGPU reports whether the command compiles HIP, and sets its mode.
func (r *commandReader) isGPU() (bool, error) {
	ext, hipcc := path.Ext(r.Source), strings.HasPrefix(path.Base(r.Argv[0]), "hipcc")
	is := r.language == hip || r.language == "" && (ext == ".hip" || hipcc && (ext == ".cu" || slices.Contains(cxxEndings, ext)))
	switch {
	case !is && hipcc:
		return false, fmt.Errorf("%s is no HIP", r.Source)
	case !is && (r.Archs != nil || r.rdc || r.offloadLTO):
		return false, fmt.Errorf("it is for GPUs, and its source is no HIP")
	case !is:
		return false, nil
	case r.Archs == nil:
		return false, fmt.Errorf("it names no architecture, and the compiler would look for one here")
	case r.offloadLTO && !r.rdc:
		return false, fmt.Errorf("-foffload-lto without -fgpu-rdc is not taken apart")
	}
	r.Mode = "whole"
	if r.rdc {
		r.Mode = "rdc"
	}
	if r.offloadLTO {
		r.Mode = "lto"
	}
	return true, nil
}
