package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

// nvlink names no file if it does not understand LTO-IR. The error names the candidates.
func TestRefusedLTOIR(t *testing.T) {
	a := &graph.Action{Work: graph.Work{Link: &graph.Link{LTO: true, Foreign: []string{"lib/vendor.a:x.o of prebuilt.vendor (kernels.hcl:3)"}}}}
	for printed, named := range map[string]bool{
		"nvlink fatal   : elfLink nvvm error\n":                  true,
		"nvlink error   : Undefined reference to 'f' in 'x.o'\n": false,
	} {
		err := LinkFailure(a, printed, errors.New("exit status 1"))
		if got := strings.Contains(err.Error(), "newer CUDA than its own, and lib/vendor.a:x.o of prebuilt.vendor (kernels.hcl:3)"); got != named {
			t.Errorf("%s%v", printed, err)
		}
	}
}
