package optfile

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// What the compilers make of these was seen of g++ 12, clang 15 and nvcc 11.8.
func TestExpand(t *testing.T) {
	texts := map[string]string{
		"plain":  "-DA -DB\n\t-DC\r\n",
		"quotes": `-DA="x y" '-DE f' -DG\"q -D"H""I"`,
		"nest":   "-g @plain -Wl,@plain,-z",
		"loop":   "@loop",
		"inner":  `-DA='x\y'`,
		"end":    "-DA\\\n-DB",
		"open":   `-DA="`,
		"list":   "-Wl,-z,now -DX",
		"cuda":   "-lineinfo --options-file more -Xcompiler=@plain",
		"more":   `-DM="x y"`,
		"own":    `-DA=\"q\"`,
		"array":  `-DA[2]`,
		"x.spec": "*cc1:\n+ -g\n",
		"i.spec": "%include <other>\n",
	}
	files := Files{Read: func(name string) ([]byte, error) {
		if text, ok := texts[strings.TrimPrefix(name, "./")]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}}
	for _, c := range []struct{ gnu, nvidia, clang, want, fault string }{
		{gnu: "-O2 @plain -g", want: "-O2|-DA|-DB|-DC|-g"},
		{gnu: "@quotes", want: `-DA=x y|-DE f|-DG"q|-DHI`},
		{gnu: "@nest", want: "-g|-DA|-DB|-DC|-Xlinker|-DA|-Xlinker|-DB|-Xlinker|-DC|-Xlinker|-z"},
		{gnu: "-Xlinker @plain -Wa,-x,@plain", want: "-Xlinker|-DA|-Xlinker|-DB|-Xlinker|-DC|-Xassembler|-x|-Xassembler|-DA|-Xassembler|-DB|-Xassembler|-DC"},
		{gnu: "@missing -Wl,-z,now", want: "@missing|-Wl,-z,now"},
		{gnu: "@loop", fault: "name each other"},
		{gnu: "@inner", fault: "a backslash within quotes"},
		{gnu: "@end", fault: "end of a line"},
		{gnu: "@open", fault: "an open quote"},
		{gnu: "-specs=./x.spec", want: "-specs=./x.spec"},
		{gnu: "-specs=x.spec", fault: "names no place"},
		{gnu: "--specs=./i.spec", fault: "%include"},
		{gnu: "-specs=./missing", fault: "cannot be read"},
		{gnu: "--config=./plain -g", want: "--config=./plain|-g"},
		{gnu: "--config=plain", fault: "names no place"},
		{gnu: "--config ./plain", fault: "names no place"},
		{gnu: "--config-user-dir=/x", fault: "names no place"},
		{gnu: "--config=./nest", fault: "takes in other files (@plain)"},
		{nvidia: "-Xcompiler=--config=./nest", fault: "takes in other files"},
		{clang: "--config=./plain @x -g", want: "--config=./plain|@x|-g"},
		{clang: "--config=./nest", fault: "takes in other files"},
		{nvidia: "--options-file plain,more -O1", want: "-DA|-DB|-DC|-DM=x y|-O1"},
		{nvidia: "-optf=cuda", want: "-lineinfo|-DM=x y|-Xcompiler|-DA|-Xcompiler|-DB|-Xcompiler|-DC"},
		{nvidia: "-Xcompiler -Wall,@list -Xcompiler=-O1,-g", want: `-Xcompiler|-Wall|-Xcompiler|-Wl\,-z\,now|-Xcompiler|-DX|-Xcompiler=-O1,-g`},
		{nvidia: "-Xcompiler -Wall,-g -Xptxas -v", want: "-Xcompiler|-Wall,-g|-Xptxas|-v"},
		{nvidia: "--options-file missing", want: "--options-file=missing"},
		{nvidia: "-optf own", fault: "in a way of its own"},
		{nvidia: "-optf array", fault: "in a way of its own"},
		{nvidia: "-Xptxas=--options-file=plain", fault: "for another program"},
		{nvidia: "-Xptxas --options-file", fault: "for another program"},
	} {
		words, err := files.GNU(strings.Fields(c.gnu))
		if c.nvidia != "" {
			words, err = files.NVIDIA(strings.Fields(c.nvidia))
		}
		if c.clang != "" {
			words, err = files.Clang(strings.Fields(c.clang))
		}
		var texts []string
		for _, w := range words {
			texts = append(texts, w.Text)
		}
		var fault *Error
		switch errors.As(err, &fault); {
		case c.fault != "" && (fault == nil || !strings.Contains(fault.Say, c.fault)):
			t.Errorf("%s%s%s: %v, want %s", c.gnu, c.nvidia, c.clang, err, c.fault)
		case c.fault == "" && (err != nil || strings.Join(texts, "|") != c.want):
			t.Errorf("%s%s%s: %q %v, want %q", c.gnu, c.nvidia, c.clang, strings.Join(texts, "|"), err, c.want)
		}
	}
	if words, err := files.GNU([]string{"-a", "@plain", "-b"}); err != nil || words[2].From != 1 || words[4].From != 2 {
		t.Errorf("places: %v %v", words, err)
	}
}
