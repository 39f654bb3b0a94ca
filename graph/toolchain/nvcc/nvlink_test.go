package nvcc

import (
	"errors"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

// The messages are nvlink's own, versions 11.8 and 12.4.
func TestReadNVLink(t *testing.T) {
	tests := []struct {
		name   string
		output string
		nonLTO []string
		kinds  string // of the faults
		text   string
	}{
		{
			name:   "a prebuilt that is declared non-LTO is quiet",
			output: "nvlink info    : requested LTO but 'third_party/libspectra.a:spectra.o' not built for LTO so doing partial LTO (target: sm_80)\n",
			nonLTO: []string{"third_party/libspectra.a"},
		},
		{
			name:   "one that is not is a fault",
			output: "nvlink info    : requested LTO but 'third_party/libspectra.a:spectra.o' not built for LTO so doing partial LTO (target: sm_80)\n",
			kinds:  "partial-lto third_party/libspectra.a:spectra.o",
			text:   "nvlink info    : requested LTO but 'third_party/libspectra.a:spectra.o' not built for LTO so doing partial LTO (target: sm_80)\n",
		},
		{
			name:   "an rdc member of an own archive is quiet, its neighbour is not",
			output: "nvlink info    : requested LTO but 'l.a:a.o' not built for LTO so doing partial LTO\nnvlink info    : requested LTO but 'l.a:b.o' not built for LTO so doing partial LTO\n",
			nonLTO: []string{"l.a:a.o"},
			kinds:  "partial-lto l.a:b.o",
			text:   "nvlink info    : requested LTO but 'l.a:b.o' not built for LTO so doing partial LTO\n",
		},
		{
			name:   "the toolkit's own library is machine code",
			output: "nvlink info    : requested LTO but '/usr/lib/x86_64-linux-gnu/libcudadevrt.a:cuda_device_runtime.o' not built for LTO so doing partial LTO\n",
		},
		{
			name:   "a missing architecture",
			output: "nvlink warning : SM Arch ('sm_70') not found in 'a.o'\nnvlink warning : Ignoring -dlto option because no LTO objects found\n",
			kinds:  "no-arch a.o sm_70; no-lto",
			text:   "nvlink warning : SM Arch ('sm_70') not found in 'a.o'\nnvlink warning : Ignoring -dlto option because no LTO objects found\n",
		},
		{
			name:   "an error with status 0",
			output: "nvlink error   : Uncompress failed\n",
			kinds:  "error",
			text:   "nvlink error   : Uncompress failed\n",
		},
		{
			name:   "information stays",
			output: "nvlink info    : Info: no reference to kernel _Z6unusedPi\n (target: sm_80)\n",
			text:   "nvlink info    : Info: no reference to kernel _Z6unusedPi\n (target: sm_80)\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, faults := readNVLink(tt.output, tt.nonLTO)
			if text != tt.text {
				t.Errorf("text %q, want %q", text, tt.text)
			}
			var kinds []string
			for _, f := range faults {
				kinds = append(kinds, strings.TrimSpace(f.kind+" "+f.culprit+" "+f.arch))
			}
			if got := strings.Join(kinds, "; "); got != tt.kinds {
				t.Errorf("faults %q, want %q", got, tt.kinds)
			}
		})
	}
}

// nvlink names no file if it does not understand LTO-IR. The error names the candidates.
func TestRefusedLTOIR(t *testing.T) {
	a := &graph.Action{Work: graph.Work{Link: &graph.Link{LTO: true, Foreign: []string{"lib/vendor.a:x.o of prebuilt.vendor (kernels.hcl:3)"}}}}
	for printed, named := range map[string]bool{
		"nvlink fatal   : elfLink nvvm error\n":                  true,
		"nvlink error   : Undefined reference to 'f' in 'x.o'\n": false,
	} {
		_, err := ReadLink(a, printed, errors.New("exit status 1"))
		if got := strings.Contains(err.Error(), "newer CUDA than its own, and lib/vendor.a:x.o of prebuilt.vendor (kernels.hcl:3)"); got != named {
			t.Errorf("%s%v", printed, err)
		}
	}
}
