package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ROCm is installed below one folder (/opt/rocm, which may be a link), and several versions of it
// side by side (/opt/rocm-6.3.0, /opt/rocm-7.2.4). Debian and Ubuntu spread it over /usr, where
// PATH leads to it.

// optFolder is where AMD's packages install ROCm.
const optFolder = "/opt"

// rocmFolders returns the folders that may hold a ROCm: those that variables name, /opt/rocm, then
// the versions beside it, the newest first.
func (w *hostEnv) rocmFolders() (dirs []string) {
	for _, v := range []string{"ROCM_PATH", "HIP_PATH"} {
		if d := w.env(v); d != "" {
			dirs = append(dirs, filepath.Clean(d))
		}
	}
	w.reads(optFolder) // clang looks there as well
	dirs = append(dirs, filepath.Join(optFolder, "rocm"))
	entries, _ := os.ReadDir(optFolder)
	var beside []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "rocm-") {
			beside = append(beside, e.Name())
		}
	}
	for _, name := range newestFirst(beside) {
		dirs = append(dirs, filepath.Join(optFolder, name))
	}
	return dirs
}

// newestFirst sorts names such as rocm-6.3.0 by their numbers.
func newestFirst(names []string) []string {
	numbers := func(name string) (list []int) {
		_, version, _ := strings.Cut(name, "-")
		for _, part := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
		return list
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := slices.Compare(numbers(b), numbers(a)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return names
}

// hipHeaders returns the folder with HIP's headers for NVIDIA's GPUs, or "" if none has them.
func (w *hostEnv) hipHeaders() string {
	for _, dir := range append(w.rocmFolders(), "/usr/local", "/usr") {
		include := filepath.Join(dir, "include")
		if w.there(filepath.Join(include, "hip", "nvidia_detail", "nvidia_hip_runtime.h")) {
			return include
		}
	}
	return ""
}

// ofROCm sets ROCM_PATH to the ROCm of the compiler if the user's ROCM_PATH names another.
func (w *hostEnv) ofROCm(env []string, driver string) []string {
	named := w.env("ROCM_PATH")
	if named == "" || within(driver, named) {
		return env
	}
	for _, dir := range w.rocmFolders() {
		if !within(driver, dir) {
			continue
		}
		env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "ROCM_PATH=") || strings.HasPrefix(v, "HIP_PATH=") })
		env = append(env, "ROCM_PATH="+dir)
		slices.Sort(env)
		return env
	}
	return env
}

func within(file, dir string) bool { return strings.HasPrefix(file, filepath.Clean(dir)+"/") }
