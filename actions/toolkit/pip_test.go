package toolkit

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// wheel makes a wheel with a file or two.
func wheel(t *testing.T, dir, name, version string, requires []string, files map[string]string) {
	t.Helper()
	under := strings.ReplaceAll(name, "-", "_")
	f, err := os.Create(filepath.Join(dir, under+"-"+version+"-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	info := under + "-" + version + ".dist-info/"
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, r := range requires {
		metadata += r + "\n"
	}
	all := map[string]string{info + "METADATA": metadata, info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n"}
	record := info + "RECORD,,\n"
	for file, text := range files {
		all["nvidia/cu13/"+file] = text
	}
	for file := range all {
		record += file + ",,\n"
	}
	all[info+"RECORD"] = record
	for file, text := range all {
		h := &zip.FileHeader{Name: file}
		h.SetMode(0o744)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// wheels is a folder with a toolkit.
func wheels(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "the wheels")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var requires []string
	for extra, name := range map[string]string{"cccl": "nvidia-cuda-cccl", "crt": "nvidia-cuda-crt", "cudart": "nvidia-cuda-runtime", "nvcc": "nvidia-cuda-nvcc", "nvvm": "nvidia-nvvm"} {
		requires = append(requires, "Provides-Extra: "+extra, fmt.Sprintf("Requires-Dist: %s==13.5.*; extra == %q", name, extra))
		wheel(t, dir, name, "13.5.37", nil, map[string]string{"include/" + extra + ".h": ""})
	}
	wheel(t, dir, "cuda-toolkit", "13.5.0", requires, nil)
	wheel(t, dir, "nvidia-cuda-nvcc", "13.5.37", nil, map[string]string{"bin/nvcc": "#!/bin/sh\n"})
	wheel(t, dir, "nvidia-nvvm", "13.5.37", nil, map[string]string{"lib/libnvvm.so.4": "nvvm", "nvvm/bin/cicc": "#!/bin/sh\n"})
	return dir
}

// The pip that is installed here does with wheels of the test what the one of testdata does.
func TestRealPip(t *testing.T) {
	tooltest.Need(t, "python3")
	if exec.Command("python3", "-m", "pip", "--version").Run() != nil && exec.Command("python3", "-c", "import ensurepip, venv").Run() != nil {
		tooltest.Missing(t, "pip, or what makes one, of python3")
	}
	p, _ := project(t)
	t.Setenv(EnvPip, "")
	t.Setenv("PIP_USER", "1") // contradicts --target
	p.Links = wheels(t)
	if err := p.Lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.read(t)
	root, err := p.Install(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(root, "nvvm/bin/cicc")); err != nil || info.Mode().Perm()&0o111 != 0o111&^umask(t) {
		t.Errorf("cicc is %v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "nvvm/lib64/libnvvm.so")); string(text) != "nvvm" {
		t.Errorf("nvlink finds %q, %v", text, err)
	}
	p.Text = regexp.MustCompile(`(nvidia-cuda-crt==13.5.37 sha256:)....`).ReplaceAll(p.Text, []byte("${1}0000"))
	if _, err := p.Install(context.Background()); err == nil || !strings.Contains(err.Error(), "DO NOT MATCH THE HASHES") {
		t.Errorf("with another wheel the error is %v", err)
	}
	p.Parts = []string{"nosuch"}
	if err := p.Lock(context.Background()); err == nil || !strings.Contains(err.Error(), "does not provide the extra") {
		t.Errorf("with a part that is not there the error is %v", err)
	}
}

// A path in KBUILD_PIP is relative to where kbuild runs: pip itself runs elsewhere.
func TestPipByRelativePath(t *testing.T) {
	script, err := os.ReadFile("testdata/pip")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := project(t)
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("my venv", 0o777), os.WriteFile("my venv/pip", script, 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvPip, "'my venv/pip'")
	if err := p.Lock(context.Background()); err != nil {
		t.Error(err)
	}
}

// umask is what files of this process may not be.
func umask(t *testing.T) os.FileMode {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, nil, 0o777); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return 0o777 &^ info.Mode().Perm()
}

// Python without pip: it may have one to put into a virtual environment, or not.
func TestPythonWithoutPip(t *testing.T) {
	for name, c := range map[string]struct{ python, says string }{
		"none":   {"exit 127", "there is no python3"},
		"no pip": {`case "$*" in --version) ;; *) exit 1 ;; esac`, "python3 has no pip"},
		"venv":   {`case "$*" in "-m pip"*) exit 1 ;; "-m venv"*) mkdir -p "$3/bin" ;; esac`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := project(t)
			t.Setenv(EnvPip, "")
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\n"+c.python+"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":/usr/bin:/bin")
			pip, err := p.newPip(context.Background(), t.TempDir())
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "apt install python3-pip") {
					t.Errorf("the error is %v; want %q", err, c.says)
				}
			} else if err != nil || !strings.HasSuffix(pip.argv[0], "venv/bin/python3") {
				t.Errorf("pip is %v, %v", pip, err)
			}
		})
	}
}
