package messages

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What compilers of CUDA 11.8 and 13.5, gcc 12, clang 15 and their linkers were seen to write.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		printed string
		want    []Message
	}{
		{"e.cu(1): error: identifier \"foo\" is undefined\n\ne.cu(1): warning #177-D: variable \"unused\" was declared but never referenced\n\n2 errors detected in the compilation of \"e.cu\".\n",
			[]Message{{Severity: Error, File: "e.cu", Line: 1, Text: `identifier "foo" is undefined`},
				{Severity: Warning, File: "e.cu", Line: 1, Code: "#177-D", Text: `variable "unused" was declared but never referenced`}}},
		{"a b.cu(12): error: expected a \";\"\n  int main(){ k<<<1,1>>>(0) return 0; }\n                            ^\n\nRemark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n",
			[]Message{{Severity: Error, File: "a b.cu", Line: 12, Text: `expected a ";"`}}},
		{"w.cu: In function ‘int main()’:\nw.cu:6:28: warning: format ‘%d’ expects [-Wformat=]\n    6 | int main(){ int y; printf(\"%d\", 3.0); }\n      |                            ^~~~  ~~~~~\n",
			[]Message{{Severity: Warning, File: "w.cu", Line: 6, Column: 28, Code: "-Wformat=", Text: "format ‘%d’ expects"}}},
		{"h.cpp:3:44: \x1b[31merror\x1b[0m: no match\nIn file included from /usr/include/c++/12/vector:64,\n                 from h.cpp:1:\n/usr/include/x.h:1276:7: note: candidate\nh.cpp:3:44: error: no match\n",
			[]Message{{Severity: Error, File: "h.cpp", Line: 3, Column: 44, Text: "no match"}}},
		{"h.cpp:1:10: fatal error: x.h: No such file or directory\ncompilation terminated.\n",
			[]Message{{Severity: Error, File: "h.cpp", Line: 1, Column: 10, Text: "x.h: No such file or directory"}}},
		{"ptxas /tmp/tmpxft_1_p.ptx, line 28; error   : Unknown modifier '.op'\nptxas fatal   : Ptx assembly aborted due to errors\n",
			[]Message{{Severity: Error, Text: "Unknown modifier '.op'", Tool: "ptxas"}}},
		{"ptxas info    : Used 8 registers\nptxas fatal   : Ptx assembly aborted due to errors\n",
			[]Message{{Severity: Error, Text: "Ptx assembly aborted due to errors", Tool: "ptxas"}}},
		{"nvlink error   : Undefined reference to '_Z7missingi' in 'lto.cubin'\nnvlink warning : Skipping incompatible 'x'\n",
			[]Message{{Severity: Error, Text: "Undefined reference to '_Z7missingi' in 'lto.cubin'", Tool: "nvlink"}, {Severity: Warning, Text: "Skipping incompatible 'x'", Tool: "nvlink"}}},
		{"/usr/bin/ld: /tmp/u.o: in function `main':\n/p/u.cpp:1: undefined reference to `g(int)'\ncollect2: error: ld returned 1 exit status\n",
			[]Message{{Severity: Error, File: "/p/u.cpp", Line: 1, Text: "undefined reference to `g(int)'"}}},
		{"/usr/bin/ld: /tmp/u.o: in function `main':\nu.cpp:(.text+0xa): undefined reference to `g(int)'\ncollect2: error: ld returned 1 exit status\n",
			[]Message{{Severity: Error, File: "u.cpp", Text: "undefined reference to `g(int)'"}}},
		{"ld.lld: error: undefined symbol: g(int)\n>>> referenced by u.cpp\nclang: error: linker command failed with exit code 1 (use -v to see invocation)\n",
			[]Message{{Severity: Error, Text: "undefined symbol: g(int)", Tool: "ld.lld"}}},
		{"/usr/bin/ld: cannot find -lnope: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
			[]Message{{Severity: Error, Text: "cannot find -lnope: No such file or directory", Tool: "/usr/bin/ld"}}},
		{"nvcc fatal   : Unknown option '--bogus'\n", []Message{{Severity: Error, Text: "Unknown option '--bogus'", Tool: "nvcc"}}},
		{"generating tables: 12 of 12\nwarning: this tool is old\n", nil},
	} {
		if diff := cmp.Diff(tc.want, Parse(tc.printed)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.printed, diff)
		}
	}
}
