package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A command of a CMake project gets the jobserver of make, and kbuild says nothing where it has
// nothing to do.
func TestExampleCMakeCommand(t *testing.T) {
	t.Parallel()
	e := realExample(t, "cmake-command")
	e.Need("make")
	program := jobServerAware(append([]string{e.Which("cmake")}, filepath.SplitList(os.Getenv("KBUILD_TEST_CMAKE"))...))
	if program == "" {
		t.Skip("needs a CMake of 3.28 or newer, in PATH or named by KBUILD_TEST_CMAKE")
	}
	e.Run(program, "-G", "Unix Makefiles", "-B", "build", ".")
	for range 2 {
		out, printed := e.Run(program, "--build", "build", "-j3")
		if strings.Contains(out+printed, "warning") || strings.Contains(out+printed, "kbuild: ") {
			t.Errorf("it says\n%s%s", out, printed)
		}
	}
	if out, _ := e.Run("build/app"); out != "app: it has its kernels\n" {
		t.Errorf("the program says %s", out)
	}
	if got := e.ELFs("build/kbuild/modules/scale.fatbin"); got != "sm_80 sm_90" {
		t.Errorf("machine code %q", got)
	}
	e.Edit("scale.cu", "*= factor", "+= factor")
	before := string(e.Read("build/kbuild/modules/scale.fatbin"))
	e.Run(program, "--build", "build", "-j3")
	if string(e.Read("build/kbuild/modules/scale.fatbin")) == before {
		t.Error("an edit made no other kernels")
	}
}

// jobServerAware is the first of some CMakes that knows JOB_SERVER_AWARE, "" if none does.
func jobServerAware(programs []string) string {
	for _, p := range programs {
		out, _ := exec.Command(p, "--version").Output()
		m := regexp.MustCompile(`version (\d+)\.(\d+)`).FindStringSubmatch(string(out))
		if m == nil {
			continue
		}
		major, _ := strconv.Atoi(m[1])
		if minor, _ := strconv.Atoi(m[2]); major > 3 || major == 3 && minor >= 28 {
			return p
		}
	}
	return ""
}
