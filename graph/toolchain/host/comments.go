package host

import (
	"regexp"
	"strings"
	"sync"
)

// IgnoresComments reports whether comments in headers cannot affect the object and messages of a C
// or C++ compile. Tokens and their positions still do. All options must be in the list. Others may
// add debug information, a plugin, or a warning about comments. C90 is not in the list: there // is
// no comment.
func IgnoresComments(options []string) bool {
	for i := 0; i < len(options); i++ {
		o := options[i]
		switch {
		case o == "-x":
			if i++; i == len(options) || options[i] != "c" && options[i] != "c++" {
				return false
			}
		case ignoresComments().MatchString(o):
			if takesNext[o] {
				i++
			}
		case strings.HasPrefix(o, "-") || strings.HasPrefix(o, "@"):
			return false
		}
	}
	return true
}

// takesNext lists the options of the list whose value is the next argument if it is not joined.
var takesNext = map[string]bool{"-o": true, "-MF": true, "-MT": true, "-MQ": true, "-I": true,
	"-D": true, "-U": true, "-isystem": true, "-iquote": true, "-idirafter": true}

var ignoresComments = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^-(` + strings.Join([]string{
		`c|o|MM?D|MP|M[FTQ]|pipe|pthread|[IDU].*|(isystem|iquote|idirafter).*`,
		`O([0-3sgz]|fast)?|w|pedantic(-errors)?|Werror|Wno-.*`,
		`std=(c|gnu)(99|9x|1[178x]|2[3xy]|\+\+(98|03|0x|1[147yz]|1x|2[0-6abc]))`,
		`W(error=)?(` + strings.Join([]string{
			`all|extra|pedantic|cast-align|cast-qual|conversion|double-promotion|duplicated-branches`,
			`duplicated-cond|float-equal|format(=2)?|format-security|implicit-function-declaration`,
			`incompatible-pointer-types|int-conversion|logical-op|missing-declarations`,
			`missing-prototypes|non-virtual-dtor|null-dereference|old-style-cast|overloaded-virtual`,
			`pointer-arith|redundant-decls|reorder|return-type|shadow|sign-compare|sign-conversion`,
			`strict-prototypes|suggest-override|switch|switch-enum|undef|uninitialized`,
			`unused(-.*)?|useless-cast|vla|write-strings`,
		}, "|") + `)`,
		`f(no-)?(PIC|PIE|pic|pie|plt|rtti|exceptions|common|builtin|inline|unroll-loops|openmp)`,
		`f(no-)?(strict-aliasing|omit-frame-pointer|function-sections|data-sections|fast-math)`,
		`f(no-)?(math-errno|trapping-math|associative-math|signed-zeros|finite-math-only)`,
		`f(no-)?(stack-protector(-strong|-all)?|semantic-interposition|signed-char|unsigned-char)`,
		`f(no-)?(wrapv|tree-vectorize|visibility-inlines-hidden|asynchronous-unwind-tables)`,
		`f(visibility|fp-contract|cf-protection)=[a-z]+`,
		`m(32|64|(arch|tune|cpu)=.*|(no-)?(avx|sse|ssse|fma|bmi|f16c|aes|popcnt)[0-9a-z.]*)`,
	}, "|") + `)$`)
})
