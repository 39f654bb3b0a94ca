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
	if diff := cmp.Diff([]string{"CPATH=/opt/include", "NVCC_APPEND_FLAGS=-O1"}, KeyEnviron(env)); diff != "" {
		t.Errorf("environment in keys (-want +got):\n%s", diff)
	}
}
