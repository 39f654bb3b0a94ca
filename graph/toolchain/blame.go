package toolchain

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// positioned matches messages with a position in the source, and those of linkers about their
// inputs. cicc 11.8 prints "a.cu(1): Error: Formal parameter space overflowed", with a capital.
const positioned = `\(\d+\): (?:catastrophic )?[Ee]rror|:\d+:(?:\d+:)? (?:fatal )?error|, line \d+; (?:error|fatal)|Undefined reference to|Multiple definition of|multiply defined|undefined (?:hidden )?symbol|duplicate symbol|IR version \S+ incompatible with current version`

// unplaced lists errors of ptxas and nvlink about their input that have no position in it. It has
// the strings of both programs, 11.8 and 13.5, without those about options and files, which kbuild
// may have passed wrongly. The last ones are warnings under -Werror.
var unplaced = []string{
	`Entry function '.*' uses too much `,
	`File uses too much global `,
	`Unresolved extern `,
	`Register allocation failed`,
	`Minimum parameter register \d+ and number of parameter registers`,
	`With specified parameters, return address is `,
	`Constant register limit exceeded`,
	`Code Size Limit `,
	`Indirect branch table is too large`,
	`More than \d+ .* used in entry function`,
	`Optimized debugging not supported`,
	`entry function '.*' with max regcount of \d+ calls function`,
	`Function '.*' (?:is recursive|not declared __global__|uses \d+ bytes stack)`,
	`(?:Size|Prototype|Managed attribute|Memory space) doesn't match for `,
	`Duplicate weak parameter bank for `,
	`Object '.*' has cuda-api-version of `,
	`Cicc option values for '.*' do not match`,
	`Input file '.*' newer than toolkit`,
	`Value of .* for entry .* is out of range`,
	`Registers are spilled to local memory`,
	`Local memory used for function`,
	`Stack size for entry function '.*' cannot be statically determined`,
}

var blames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(positioned + `|(?:ptxas|nvlink) (?:error|fatal)\s*: (?:` + strings.Join(unplaced, "|") + `)`)
})

// BlamesSource reports whether a failed pass blames the source, or the linked inputs. The unsplit
// command then fails in the same way. PTX without a beginning does not blame the source: it was not
// written, or another file was read as PTX.
func BlamesSource(output []byte) bool {
	for line := range bytes.Lines(output) {
		if blames().Match(line) && !bytes.Contains(line, []byte("Missing .version directive")) {
			return true
		}
	}
	return false
}
