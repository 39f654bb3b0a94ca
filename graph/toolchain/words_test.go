package toolchain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShellWords holds the splitting of commands against what a shell does; what only a shell can
// know is an error.
func TestShellWords(t *testing.T) {
	assigned := map[string]string{"CICC_PATH": "/cuda/nvvm/bin", "BLANK": "/a b", "EMPTY": "", "STAR": "/a/*", "NESTED": "$TOP/bin", "QUOTED": `"-I/x"`}
	for _, tt := range []struct {
		text  string
		want  []string
		fault string // in the error
	}{
		{text: `"$CICC_PATH/cicc" -o "a b.ptx"`, want: []string{"/cuda/nvvm/bin/cicc", "-o", "a b.ptx"}},
		{text: `${CICC_PATH}/cicc $CICC_PATH`, want: []string{"/cuda/nvvm/bin/cicc", "/cuda/nvvm/bin"}},
		{text: `"${CICC_PATH}x" "\$CICC_PATH"`, want: []string{"/cuda/nvvm/binx", "$CICC_PATH"}},
		{text: `"$BLANK/cicc" "$EMPTY"`, want: []string{"/a b/cicc", ""}},
		{text: `'a b'c "it's" 'a"$b\' ''`, want: []string{"a bc", "it's", `a"$b\`, ""}},
		{text: `a\ b \"c\"`, want: []string{"a b", `"c"`}},
		{text: `'cicc`, fault: "open quote"},
		{text: `"$STAR"`, want: []string{"/a/*"}},
		{text: `$BLANK/cicc`, fault: "$BLANK"},
		{text: `cicc $EMPTY`, fault: "$EMPTY"},
		{text: `$STAR`, fault: "$STAR"},
		{text: `"$NESTED/cicc"`, fault: "$NESTED"},
		{text: `"$QUOTED"`, fault: "$QUOTED"},
		{text: `"$CICC_PATHS/cicc"`, fault: "'$'"},
		{text: `"${CICC_PATH:-/x}/cicc"`, fault: "'$'"},
		{text: `"$(pwd)/cicc"`, fault: "'$'"},
		{text: `"$HOME/cicc"`, fault: "'$'"},
		{text: `cicc $$ $1`, fault: "'$'"},
		{text: "\"`pwd`/cicc\"", fault: "backquote"},
		{text: `cicc > x`, fault: `'>'`},
		{text: `"cicc`, fault: "open quote"},
	} {
		words, err := ShellWords(tt.text, assigned)
		switch {
		case tt.fault != "":
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: %q, %v; want an error about %s", tt.text, words, err, tt.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.text, err)
		default:
			if diff := cmp.Diff(tt.want, words); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.text, diff)
			}
		}
	}
}
