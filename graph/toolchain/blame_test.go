package toolchain

import "testing"

// What ptxas and nvlink say, of 11.8 and 13.5 alike.
func TestBlamesSource(t *testing.T) {
	for _, printed := range []string{
		"ptxas error   : Entry function '_Z1kPi' uses too much shared data (0x13880 bytes, 0xc000 max)",
		"ptxas error   : File uses too much global constant data (0x13880 bytes, 0x10000 max)",
		"ptxas fatal   : Unresolved extern function '_Z1fi'",
		"ptxas fatal   : Optimized debugging not supported",
		"ptxas error   : Value of threads per SM for entry _Z1kPd is out of range. .minnctapersm will be ignored\nptxas fatal   : Ptx assembly aborted due to errors",
		"ptxas error   : Register allocation failed with register count of '24'. Compile the program with a higher register target",
		"ptxas /tmp/tmpxft_00007809_00000000-6_asm.ptx, line 26; error   : Not a name of any known instruction: 'nonsense'\nptxas fatal   : Ptx assembly aborted due to errors",
		"ptxas a.ptx, line 1; fatal   : Unsupported .version 9.9; current version is '7.8'",
		"ptxas a.ptx, line 2; fatal   : Unsupported .target 'sm_999'",
		"ptxas application ptx input, line 27; error   : Not a name of any known instruction: 'nonsense'\nnvlink fatal   : elfLink fatbinary error",
		"nvlink error   : Undefined reference to '_Z1fi' in 'lto.cubin'",
		"nvlink error   : Multiple definition of '_Z1fi' in 'f.o', first defined in 'g.o'\nnvlink fatal   : merge_elf failed",
		"nvlink error   : Size doesn't match for 'tab2' in 'g2.o', first specified in 'g1.o'",
		"nvlink error   : Entry function '_Z1kPi' uses too much shared data (0x13880 bytes, 0xc000 max)",
		"nvlink fatal   : Cicc option values for '-ftz' do not match",
		"nvlink fatal   : Input file 'a.o' newer than toolkit (124 vs 118)",
		"nvlink info    : f2.o: link error: error: Linking globals named '_Z1fl': symbol multiply defined!",
		"param.cu(1): Error: Formal parameter space overflowed (8008 bytes required, max 4096 bytes allowed) in function _Z1k1SPi",
		"a.cu(4): error: identifier \"q\" is undefined",
	} {
		if !BlamesSource([]byte("a.cu(1): warning #177-D: unused\n" + printed + "\n")) {
			t.Errorf("it is not the source's fault: %s", printed)
		}
	}
	for _, printed := range []string{
		"ptxas fatal   : Unknown option '-no-such'",
		"ptxas fatal   : Value 'sm_20' is not defined for option 'gpu-name'",
		"ptxas fatal   : SM version specified by .target is higher than default SM version assumed",
		"ptxas fatal   : Input file 'nofile.ptx' could not be opened\nptxas fatal   : Ptx assembly aborted due to errors",
		"ptxas a.ptx, line 1; fatal   : Missing .version directive at start of file 'a.ptx'\nptxas fatal   : Ptx assembly aborted due to errors",
		"ptxas error   : Invalid default cache modifier on load specified: xx",
		"nvlink fatal   : Could not open input file 'f3.o'",
		"cicc: Unknown Command line argument '--no-such-option'.  Try: 'cicc --help'",
		"",
	} {
		if BlamesSource([]byte(printed)) {
			t.Errorf("it is the source's fault: %s", printed)
		}
	}
}
