package toolkit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func wheelsOf(version string) []Wheel {
	var wheels []Wheel
	for i, name := range oneRelease {
		wheels = append(wheels, Wheel{"x86_64", name, version, strings.Repeat(string(rune('a'+i)), 64)})
	}
	return wheels
}

func TestLockFileIsReadAsWritten(t *testing.T) {
	l := &lock{requirement("13.5.0", []string{"nvdisasm", "nvcc"}), wheelsOf("13.5.37")}
	read, err := parse(l.text())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, read, cmp.AllowUnexported(lock{})); diff != "" {
		t.Error(diff)
	}
	if want := "cuda-toolkit[cccl,crt,cudart,nvcc,nvdisasm,nvvm]==13.5.0"; l.requirement != want {
		t.Errorf("pip is asked for %s; want %s", l.requirement, want)
	}
}

func TestDamagedLockFiles(t *testing.T) {
	good := (&lock{"cuda-toolkit==13.5.0", wheelsOf("13.5.37")}).text()
	for name, c := range map[string]struct{ text, says string }{
		"empty":          {"", "names no toolkit"},
		"newer":          {strings.Replace(good, "format 1", "format 2", 1), "line 2"},
		"cut off":        {good[:len(good)-10], "line 7"},
		"line ends":      {strings.ReplaceAll(good, "\n", "\r\n"), "line 1: it ends in CR and LF"},
		"one line's":     {strings.Replace(good, "==13.5.0\n", "==13.5.0\r\n", 1), "line 3: it ends in CR and LF"},
		"merge":          {strings.Replace(good, "toolkit cuda", "<<<<<<< HEAD\ntoolkit cuda", 1), "line 3: a conflict that git has left"},
		"merge, formats": {"<<<<<<< HEAD\n" + good + "=======\n" + good + ">>>>>>> other\n", "line 1: a conflict that git has left"},
		"half a merge":   {good + ">>>>>>> other\n", "line 8: a conflict that git has left"},
		"other digest":   {strings.Replace(good, "sha256:", "md5:", 1), "line 4"},
		"other machine":  {strings.Replace(good, "x86_64", "ppc64le", 1), "line 4"},
		"an option":      {strings.Replace(good, "nvidia-nvvm==13.5.37", "nvidia-nvvm==13.5.37 --index-url=x", 1), "line 5"},
		"two toolkits":   {strings.Replace(good, "toolkit cuda", "toolkit a==1\ntoolkit cuda", 1), "line 4"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(c.text); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v; want %q", err, c.says)
			}
		})
	}
}

// Two machines have one name for one content, whatever pip calls it and in which order.
func TestFolderIsOfContent(t *testing.T) {
	wheels := wheelsOf("13.5.37")
	name := folder(wheels)
	slices.Reverse(wheels)
	for i := range wheels {
		wheels[i].Name, wheels[i].Version, wheels[i].Machine = "x", "1", "aarch64"
	}
	if again := folder(wheels); again != name {
		t.Errorf("the same wheels are in %s and %s", name, again)
	}
	wheels[0].SHA256 = strings.Repeat("9", 64)
	if folder(wheels) == name {
		t.Error("another wheel is in the same folder")
	}
}

func TestCheck(t *testing.T) {
	mixed := wheelsOf("13.0.88")
	mixed[1].Version = "13.5.37"
	later := wheelsOf("13.1.115")
	for name, c := range map[string]struct {
		wheels  []Wheel
		version string
		says    string
	}{
		"all of one release": {wheelsOf("13.5.37"), "13.5.0", ""},
		"four numbers":       {wheelsOf("13.4.5"), "13.4.1.0", ""},
		"13.1 is not 13.10":  {later, "13.10.0", "nvidia-cuda-nvcc 13.1.115, which is not of CUDA 13.10"},
		"cicc of another":    {mixed, "13.0.2", "nvidia-nvvm 13.5.37, which is not of CUDA 13.0"},
		"one missing":        {wheelsOf("13.5.37")[1:], "13.5.0", "nvidia-cuda-nvcc is not among"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(c.wheels, c.version)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v; want %q", err, c.says)
			}
		})
	}
}
