package toolchain

import (
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/graph"
)

func TestDeviceLibraries(t *testing.T) {
	for _, test := range []struct {
		argv, want string
		linker     graph.Linker
	}{
		{"nvlink -La -Lb/ -lq x.o", "a/libq.so b/libq.so a/libq.a b/libq.a", graph.LinkerNVLink},
		{"nvlink -l q -L a,b -l=r,s", "a/libq.so b/libq.so a/libq.a b/libq.a|a/libr.so b/libr.so a/libr.a b/libr.a|a/libs.so b/libs.so a/libs.a b/libs.a", graph.LinkerNVLink},
		{"nvlink --library-path a --library-path=b --library q --library=r", "a/libq.so b/libq.so a/libq.a b/libq.a|a/libr.so b/libr.so a/libr.a b/libr.a", graph.LinkerNVLink},
		{"nvlink --library-pathological -m64 -o x.cubin", "", graph.LinkerNVLink},
		{"lld -flavor gnu -La,b -L c -lq -l:r.a", "a,b/libq.so a,b/libq.a c/libq.so c/libq.a|a,b/r.a c/r.a", graph.LinkerLLD},
	} {
		var got []string
		for _, candidates := range DeviceLibraries(strings.Fields(test.argv), test.linker) {
			got = append(got, strings.Join(candidates, " "))
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%s\n%s\nwant %s", test.argv, strings.Join(got, "|"), test.want)
		}
	}
}

func TestMapLibraryFolders(t *testing.T) {
	argv := strings.Fields("nvlink -La -L b,c --library-path=d -L=e --library-path f -lg -o h -L")
	want := strings.Fields("nvlink -L/a -L /b,/c --library-path=/d -L=/e --library-path /f -lg -o h -L")
	if got := MapLibraryFolders(argv, func(dir string) string { return "/" + dir }); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
