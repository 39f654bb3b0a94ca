package nvcc

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/cuda"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
)

// Doctor reports whether the toolkit that a build would use is complete, and which others are
// installed.
func (k *Toolchain) Doctor(host *find.Finder, want find.Wanted) (list []find.Finding) {
	if k.Toolkit == nil {
		return []find.Finding{{Status: find.Fails, What: "CUDA toolkit", Text: k.Missing}}
	}
	f := finder{Finder: host, Wanted: want, Toolkit: k.Toolkit}
	add := func(status, what, text string) {
		list = append(list, find.Finding{Status: status, What: what, Text: text})
	}
	add(find.OK, "CUDA toolkit", fmt.Sprintf("%s at %s", k.Build, k.NVCC.Path))
	if k.Clang != nil {
		add(find.OK, "CUDA compiler", find.Described(k.Clang.Driver)+" with --cuda-path="+k.Clang.CUDAPath)
	}
	used := []string{f.Real(k.NVCC.Path)} // a toolkit may have several names
	want.Compiler = ""
	all := finder{Finder: host, Wanted: want}
	places, _ := all.places(true)
	for _, p := range places {
		if f.IsProgram(p) && !slices.Contains(used, f.Real(p)) {
			used = append(used, f.Real(p))
			add(find.OK, "", "not used: "+p)
		}
	}
	if len(k.Archs) == 0 {
		add(find.Fails, "GPU code", k.NVCC.Path+" --list-gpu-code names none; install the toolkit anew.")
	} else {
		add(find.OK, "GPU code", toolchain.Range(k.Archs))
	}
	for _, part := range k.Lacks {
		add(find.Fails, part, "is missing from the toolkit; install it whole (on Debian and Ubuntu: apt install --reinstall nvidia-cuda-toolkit nvidia-cuda-dev).")
	}
	whole := len(k.Lacks) == 0
	for _, lib := range Libraries {
		switch fault := k.LibFaults[lib]; {
		case fault == "":
		case lib == "libcudart.so":
			add(find.Warns, lib, `for cudart = "shared": `+fault)
		default:
			whole = false
			add(find.Fails, lib, fault)
		}
	}
	if k.Mixed != "" {
		add(find.Warns, "versions", k.Mixed)
	}
	if whole {
		add(find.OK, "parts of the toolkit", strings.Join(Programs, ", "))
	}
	if k.Clang == nil {
		if why := f.unsplit(); why != "" {
			add(find.Warns, "taken apart", "no: "+why)
		} else {
			add(find.OK, "taken apart", "yes")
		}
	}
	if find.Fits(k.HostCXX, k.HostLimit) {
		add(find.OK, "host compiler of nvcc", find.Described(k.HostCXX))
	} else {
		add(find.Warns, "host compiler of nvcc", fmt.Sprintf("%s is newer than g++ %[2]d, the last that this toolkit accepts; name g++-%[2]d as host_compiler of the toolchain block.", find.Described(k.HostCXX), k.HostLimit))
	}
	if k.LibNVVM != "" {
		add(find.OK, "LTO", "nvlink is handed "+k.LibNVVM)
	} else {
		list = append(list, find.Check("LTO", k.LTOFault, "nvlink finds libnvvm"))
	}
	switch k.LTOFloats {
	case cuda.FloatsTold:
		add(find.OK, "LTO arithmetic", "nvlink forgets -ftz, -prec-div and -fmad; kbuild tells it (lto_floats)")
	case cuda.FloatsLost:
		add(find.Warns, "LTO arithmetic", `nvlink forgets -ftz, -prec-div and -fmad, and cannot be told: use mode = "rdc" with them.`)
	case cuda.FloatsUntried:
		add(find.Warns, "LTO arithmetic", "kbuild could not try whether nvlink remembers -ftz, -prec-div and -fmad (lto_floats).")
	}
	if f.LookupIn("cuobjdump", path.Join(k.Root, "bin")+":"+f.Env["PATH"]) == "" {
		add(find.Warns, "cuobjdump", "was not found; builds do not need it, it disassembles device code.")
	}
	return list
}

// unsplit returns why nvcc runs as one command for plain code, or "" if its steps can be split. It
// queries nvcc as a build does.
func (f *finder) unsplit() string {
	if missing := Missing(f.Programs); missing != "" {
		return missing
	}
	if len(f.Archs) == 0 {
		return "it compiles for no architecture"
	}
	cc := Driver{Path: f.NVCC.Path, HostCXX: f.HostCXX.Path}
	query := func(argv []string) (string, error) {
		text, err := f.Output(append([]string{f.NVCC.Path}, Query(argv, "a.cu", "a.o", "a.d")...)...)
		if err != nil {
			return "", fmt.Errorf("nvcc --dryrun: %w: %s", err, find.Complaint(text))
		}
		return text, nil
	}
	text, err := query(cc.Compile(toolchain.Compile{Source: "a.cu", Output: "a.o", Depfile: "a.d", Mode: "whole", Codes: f.Archs[:1]}, toolchain.Options{}))
	if err == nil {
		_, err = LearnCompile(text)
	}
	if err == nil {
		text, err = query(cc.DeviceLink(DeviceLink{Inputs: []string{toolchain.QueryInput}, Output: "a.o", Codes: f.Archs[:1]}, toolchain.Options{}))
	}
	if err == nil {
		_, err = LearnLink(text)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
