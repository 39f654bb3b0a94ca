package object

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

const (
	archiveMagic = "!<arch>\n"
	memberHead   = 60
)

// ArchiveForLink is ForLink for each member of a static library, in order and under their names. The symbol index
// is left out: nvlink goes by the members.
func ArchiveForLink(file []byte, code gencode.Code) ([]byte, error) {
	rest, ok := bytes.CutPrefix(file, []byte(archiveMagic))
	if !ok {
		return nil, fmt.Errorf("not a static library")
	}
	out := []byte(archiveMagic)
	for len(rest) > 0 {
		if len(rest) < memberHead || string(rest[58:60]) != "`\n" {
			return nil, fmt.Errorf("a broken member of a static library")
		}
		name := strings.TrimRight(string(rest[:16]), " ")
		n, err := strconv.ParseUint(strings.TrimRight(string(rest[48:58]), " "), 10, 63)
		body := slice(rest, memberHead, n)
		if err != nil || body == nil {
			return nil, fmt.Errorf("a broken member of a static library")
		}
		rest = rest[memberHead+len(body):]
		rest = rest[min(len(rest), len(body)%2):]
		switch {
		case name == "/" || name == "/SYM64/" || name == "__.SYMDEF":
			continue
		case name != "//" && bytes.HasPrefix(body, []byte("\x7fELF")):
			if body, err = ForLink(body, code); err != nil {
				return nil, err
			}
		}
		out = fmt.Appendf(out, "%-16s%-12s%-6s%-6s%-8s%-10d`\n", name, "0", "0", "0", "644", len(body))
		out = padded(append(out, body...), 2)
	}
	return out, nil
}
