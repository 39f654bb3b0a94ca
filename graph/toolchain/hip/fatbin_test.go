package hip

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
)

// The names were seen in objects of clang 22: -cuid=aa, -cuid=bb (whose hash has 15 digits).
func TestFatbinSymbol(t *testing.T) {
	for _, tt := range []struct {
		major    int
		id, want string
	}{
		{15, "aa", "__hip_fatbin"}, {18, "aa", "__hip_fatbin"}, {19, "aa", "__hip_fatbin_7fc235930abc2441"}, {22, "bb", "__hip_fatbin_80db936d80bad21"},
	} {
		if got := FatbinSymbol(tt.major, tt.id); got != tt.want {
			t.Errorf("clang %d, %s: %s, want %s", tt.major, tt.id, got, tt.want)
		}
	}
}

// Each name of the code has its handle: code of clang 15 in an archive, of 22 in the program.
func TestFatbinSource(t *testing.T) {
	const want = `	.section .hip_gpubin_handle,"aw"
	.p2align 3
	.globl __hip_gpubin_handle_1a
	.hidden __hip_gpubin_handle_1a
	.type __hip_gpubin_handle_1a,@object
__hip_gpubin_handle_1a:
	.zero 8
	.section .hip_fatbin,"a",@progbits
	.p2align 12
	.globl __hip_fatbin
	.hidden __hip_fatbin
	.type __hip_fatbin,@object
__hip_fatbin:
	.globl __hip_fatbin_1a
	.hidden __hip_fatbin_1a
	.type __hip_fatbin_1a,@object
__hip_fatbin_1a:
	.incbin "code"
	.section .note.GNU-stack,"",@progbits
`
	if diff := cmp.Diff(want, FatbinSource("code", []string{"__hip_fatbin", "__hip_fatbin_1a"})); diff != "" {
		t.Error(diff)
	}
}

// Flags for lld reach it through clang, with their operands; libraries stay to be seen in the
// command.
func TestFlagsThroughClang(t *testing.T) {
	u := toolchain.Unit{Plan: &toolchain.Plan{}, Whole: &graph.Action{Work: graph.Work{Driver: &graph.Driver{}}}}
	DeviceLink{Clang: true, Program: "clang"}.Emit(u, "", Bitcode{Options: []string{"a.o", "--whole-archive", "b.a"}}, []string{"-L", "dir", "--library", "x", "-z", "defs"}, "out")
	got := u.Plan.Actions[0].Argv
	want := []string{"clang", "-Xlinker", "-Ldir", "-Xlinker", "--library=x", "-Xlinker", "-z", "-Xlinker", "defs", "-o", "out", "a.o", "-Xlinker", "--whole-archive", "b.a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
