package manifest

import "testing"

func TestExpand(t *testing.T) {
	fsys := files("")
	for _, c := range []struct {
		patterns []string
		want     []string
	}{
		{[]string{"src/*.cu"}, []string{"src/a.cu", "src/b.cu", "src/gemm.cu"}},
		{[]string{"src/b.cu", "src/[ab].cu", "./src/a.cu"}, []string{"src/a.cu", "src/b.cu"}},
		{[]string{"src/**/f*.cu"}, []string{"src/callbacks/fft.cu"}},
		{[]string{"**/a.cu"}, []string{"src/a.cu"}},
		{[]string{"src/über */*"}, []string{"src/über uns/ker nel.cu"}},
		{[]string{"src/.h*.cu"}, []string{"src/.hidden.cu"}},
		{[]string{"other/**"}, []string{"other/build/real.cu"}},
		{[]string{"**/*ade.cu", "src/a.cu"}, nil},
		{[]string{".git/../*"}, nil},
		{[]string{"**/hidden.cu"}, nil},
		{[]string{"bench"}, nil},
	} {
		got, err := expand(fsys, "elsewhere", "", c.patterns)
		expect(t, c.patterns[0], got, c.want)
		if (err == nil) != (c.want != nil) {
			t.Errorf("%q: error %v", c.patterns, err)
		}
	}
	if _, err := expand(fsys, "other/build", "", []string{"other/**/*.cu"}); err == nil {
		t.Error("glob saw into the build folder of this run")
	}
}

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"src/*.cu", "src/a.cu", true}, {"src/*.cu", "src/x/a.cu", false}, {"src/**", "src/x/a.cu", true},
		{"**/a.cu", "a.cu", true}, {"**/x/**/a.cu", "q/x/y/z/a.cu", true}, {"*.cu", ".a.cu", false},
	} {
		expect(t, c.pattern+" "+c.name, matchPath(c.pattern, c.name), c.want)
	}
}
