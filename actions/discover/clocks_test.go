package discover

import (
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

func TestCommandTellsTime(t *testing.T) {
	for _, tc := range []struct {
		arg, env, depfile string
		want              bool
	}{
		{arg: "-DWHEN=__TIME__", depfile: "d", want: true},
		{arg: "-DWHEN=__TIME__"},
		{arg: "-D__DATE__=x", depfile: "d", want: true},
		{arg: "-DWHEN=__TIME", depfile: "d"},
		{arg: "-DA__B", depfile: "d"},
		{arg: "-DWHEN=__TIMESTAMP__", depfile: "d", env: "SOURCE_DATE_EPOCH=1", want: true},
		{arg: "-DWHEN=__TIME__", depfile: "d", env: "SOURCE_DATE_EPOCH=1"},
		{arg: "-ccbin=/usr/bin/clang++-15 -DWHEN=__TIME__", depfile: "d", env: "SOURCE_DATE_EPOCH=1", want: true},
		{arg: "-c", depfile: "d", env: "NVCC_APPEND_FLAGS=-DX=__TIME__", want: true},
	} {
		d := New(Config{KeyEnv: []string{tc.env}})
		if got := d.CommandTellsTime(&graph.Action{Argv: append([]string{"g++"}, strings.Fields(tc.arg)...), Depfile: tc.depfile}); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
