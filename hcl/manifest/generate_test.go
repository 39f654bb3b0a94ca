package manifest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const chooses = `
executable "tool" {
  sources = ["tool.cpp"]
}

generate "parts" {
  command = ["python3", "tools/parts.py", self.dir, self.outputs[1]]
  inputs  = ["tools/parts.py"]
  outputs = ["*.cu", "inc/"]
  deps    = [executable.tool]
}

generate "more" {
  command = ["sh", "-c", "more", join(" ", generate.parts.outputs)]
  outputs = ["more.h"]
}

library "k" {
  sources = [for f in generate.parts.outputs : f if endswith(f, ".cu")]
  deps    = [generate.parts]
  code    = ["sm_90"]
}

library "unsound" {
  sources = ["missing.cu"]
}
`

// Of a command that chooses its files there is a plan of its own until it has run.
func TestChosenFiles(t *testing.T) {
	fsys := files(chooses)
	for _, name := range []string{"tool.cpp", "tools/parts.py"} {
		fsys[name] = &fstest.MapFile{}
	}
	load := func(opts Options) (*Project, string) {
		opts.FS, opts.Dir = fsys, t.TempDir()
		p, diags := Load(opts)
		var printed []string
		for _, d := range diags {
			printed = append(printed, d.Summary)
		}
		var labels []string
		for _, target := range p.Targets {
			labels = append(labels, string(target.Kind)+"."+target.Name)
		}
		return p, strings.Join(append(labels, printed...), "\n")
	}
	const first = "executable.tool\ngenerate.parts"
	p, got := load(Options{})
	if got != first || !slices.Equal(p.Pending, []string{"generate.parts"}) {
		t.Fatalf("at first: %s\npending %q", got, p.Pending)
	}
	parts := p.Targets[1]
	if want := []string{"python3", "tools/parts.py", "build/gen/parts", "build/gen/parts/inc"}; !slices.Equal(parts.Command, want) || !slices.Equal(parts.Patterns, []string{"*.cu", "inc/**"}) || parts.Outputs != nil {
		t.Errorf("at first: %q writes %q, %q", parts.Command, parts.Patterns, parts.Outputs)
	}
	list := &fstest.MapFile{Data: []byte("a.cu\nb.cu\ninc/b.h\n")}
	fsys["build/gen/.parts.list"] = list
	p, got = load(Options{})
	if want := "executable.tool\ngenerate.parts\ngenerate.more\nlibrary.k\nlibrary.unsound\nthere is no file missing.cu"; got != want || p.Pending != nil {
		t.Fatalf("then: %s\nwant %s\npending %q", got, want, p.Pending)
	}
	var sources []string
	for _, s := range p.Targets[3].Sources {
		sources = append(sources, s.Path+" of "+s.Generated)
	}
	if want := []string{"build/gen/parts/a.cu of generate.parts", "build/gen/parts/b.cu of generate.parts"}; !slices.Equal(sources, want) {
		t.Errorf("sources are %q", sources)
	}
	if more := p.Targets[2].Command[3]; more != "build/gen/parts/a.cu build/gen/parts/b.cu build/gen/parts/inc/b.h" {
		t.Errorf("the other command has %q", more)
	}
	if _, got = load(Options{IgnoreDynamic: true}); got != first {
		t.Errorf("with a list that is not to be trusted: %s", got)
	}
	for _, damaged := range []string{"", "a.cu", "b.cu\na.cu\n", "../a.cu\n", "/a.cu\n", "a.cu\n\n"} {
		list.Data = []byte(damaged)
		if _, got = load(Options{}); got != first {
			t.Errorf("with the list %q: %s", damaged, got)
		}
	}
}

// Commands that need each other's files never run.
func TestChosenFilesInACircle(t *testing.T) {
	fsys := files(`
generate "a" {
  command = ["x", join(" ", generate.b.outputs)]
  outputs = ["*.h"]
}

generate "b" {
  command = ["x"]
  inputs  = generate.a.outputs
  outputs = ["*.h"]
}
`)
	_, diags := Load(Options{FS: fsys, Dir: t.TempDir()})
	if len(diags) != 1 || !strings.Contains(diags[0].Summary, "needs files whose names are known only when another such command has run") {
		t.Errorf("%v", diags)
	}
}
