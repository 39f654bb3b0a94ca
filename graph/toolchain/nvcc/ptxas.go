package nvcc

import (
	"fmt"
	"strings"
)

// With -v, ptxas prints which resources of a multiprocessor each function uses, in lines such as
//
//	ptxas info    : 40 bytes gmem, 16 bytes cmem[3]
//	ptxas info    : Compiling entry function '_Z2k1Pfi' for 'sm_80'
//	ptxas info    : Function properties for _Z2k1Pfi
//	    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//	ptxas info    : Used 24 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0]
//
// (11.8 and 12.4; nvlink passes on the lines of the ptxas inside it). A called function that is not
// a kernel has properties but no registers.

// Function holds the resources that a function of device code uses, as ptxas reports them.
type Function struct {
	Name        string // mangled
	Arch        string // "sm_80"
	Entry       bool   // a kernel; for other functions ptxas reports only the stack
	Registers   int
	Barriers    int
	Shared      int // statically declared
	Constant    int // all banks
	Stack       int
	SpillStores int
	SpillLoads  int
}

// ReadPTXAS parses the lines of ptxas about functions, and returns the rest of the output. The rest
// includes what ptxas prints without -v, such as warnings about slow code.
func ReadPTXAS(printed string) (rest string, functions []Function) {
	if !strings.Contains(printed, "ptxas info") {
		return printed, nil
	}
	var keep strings.Builder
	arch := ""
	var last *Function
	start := func(name string, entry bool) {
		functions = append(functions, Function{Name: name, Entry: entry})
		last = &functions[len(functions)-1]
	}
	for line := range strings.Lines(printed) {
		msg, isInfo := infoOf(line)
		var name string
		switch {
		case isInfo && scan(msg, "Compiling entry function %s for %s", &name, &arch):
			arch = strings.Trim(arch, "'")
			start(strings.Trim(name, "'"), true)
		case isInfo && scan(msg, "Function properties for %s", &name):
			if last == nil || last.Name != name {
				start(name, false)
			}
		case isInfo && strings.HasPrefix(msg, "Used ") && last != nil:
			readUsed(last, msg)
		case !isInfo && last != nil && scan(line,
			" %d bytes stack frame, %d bytes spill stores, %d bytes spill loads",
			&last.Stack, &last.SpillStores, &last.SpillLoads):
		case isInfo && (strings.Contains(msg, " bytes gmem") ||
			strings.HasPrefix(msg, "Overriding ") || strings.HasPrefix(msg, "Compile time = ")):
		default:
			keep.WriteString(line)
		}
	}
	for i := range functions {
		functions[i].Arch = arch // a function before the first kernel, too
	}
	return keep.String(), functions
}

// infoOf returns the message of a line that ptxas prints as info.
func infoOf(line string) (msg string, ok bool) {
	line, ok = strings.CutPrefix(line, "ptxas info")
	if !ok {
		return "", false
	}
	msg, ok = strings.CutPrefix(strings.TrimLeft(line, " "), ": ")
	return strings.TrimRight(msg, "\r\n"), ok
}

func scan(text, format string, into ...any) bool {
	n, _ := fmt.Sscanf(text, format, into...)
	return n == len(into)
}

// readUsed parses "Used 24 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0]".
func readUsed(f *Function, msg string) {
	for part := range strings.SplitSeq(msg, ", ") {
		var n int
		var what string
		switch {
		case scan(part, "Used %d registers", &n):
			f.Registers = n
		case scan(part, "used %d barriers", &n):
			f.Barriers = n
		case !scan(part, "%d bytes %s", &n, &what):
		case what == "smem":
			f.Shared = n
		case strings.HasPrefix(what, "cmem["):
			f.Constant += n
		}
	}
}
