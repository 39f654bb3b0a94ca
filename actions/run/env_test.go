package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnviron(t *testing.T) {
	parent := []string{"PATH=/usr/bin", "MAKEFLAGS= -j2 --jobserver-auth=3,4", "LANG=de_DE.UTF-8", "LC_ALL=de_DE.UTF-8", "TMPDIR=/var/tmp",
		"CPATH=/opt/include", "TZ=Europe/Berlin", "HOME=/home/me", "NVCC_APPEND_FLAGS=-O1", "SECRET=1", "DEPENDENCIES_OUTPUT=x.d", "=odd", "CPATHS=x"}
	env := Environ(parent, []string{"MINE=1"})
	want := []string{"CPATH=/opt/include", "HOME=/home/me", "LC_ALL=C", "NVCC_APPEND_FLAGS=-O1", "PATH=/usr/bin", "TZ=UTC", "MINE=1"}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"CPATH=/opt/include", "NVCC_APPEND_FLAGS=-O1"}, Select(env, Keyed)); diff != "" {
		t.Errorf("environment in keys (-want +got):\n%s", diff)
	}
}

func TestSelect(t *testing.T) {
	got := Select([]string{"PATH=/bin", "ROCR_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES_X=1", "HIP_VISIBLE_DEVICES=1"}, GPUs)
	if diff := cmp.Diff([]string{"CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=1", "ROCR_VISIBLE_DEVICES=0"}, got); diff != "" {
		t.Errorf("of GPUs (-want +got):\n%s", diff)
	}
}

func TestWithLibraryFolders(t *testing.T) {
	for _, c := range []struct{ env, want []string }{
		{nil, []string{"LD_LIBRARY_PATH=/a:/b"}},
		{[]string{"LD_LIBRARY_PATH="}, []string{"LD_LIBRARY_PATH=/a:/b"}}, // an empty entry would be the folder that it runs in
		{[]string{"LD_LIBRARY_PATH=/x", "HOME=/", "LD_LIBRARY_PATH=/y"}, []string{"HOME=/", "LD_LIBRARY_PATH=/a:/b:/y"}},
	} {
		if diff := cmp.Diff(c.want, WithLibraryFolders(c.env, []string{"/a", "/b"})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.env, diff)
		}
	}
}
