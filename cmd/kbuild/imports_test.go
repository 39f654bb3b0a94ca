package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is the import policy: which of our packages each package may import. Do not change it to
// fix a build; it says which way data flows.
var allowed = map[string]string{
	"cmd/kbuild":                   "*",
	"cmd/internal/e2e":             "graph/modinfo actions/tooltest",
	"cmd/internal/pretend":         "cmd/internal/pretend/devcode",
	"cmd/internal/pretend/devcode": "",
	"cmd/internal/reference":       "hcl/manifest",
	"cmd/internal/compdb":          "graph graph/toolchain/nvcc",
	"cmd/internal/importer":        "hcl/manifest graph/toolchain/optfile graph/gencode graph/toolchain graph/toolchain/host graph/toolchain/nvcc cache/regular",
	"cmd/internal/wheel":           "",
	"cmd/internal/golden":          "",
	"cmd/internal/gotest":          "",
	"cmd/internal/messages":        "",
	"cmd/internal/report":          "graph actions/sched cmd/internal/messages",
	"cmd/internal/term":            "hcl/manifest graph actions/sched cache/regular cmd/internal/messages",
	"hcl/manifest":                 "graph/fileset graph/gencode cache cache/regular graph/toolchain/optfile",
	"graph/toolchain/optfile":      "",
	"graph":                        "",
	"graph/fileset":                "",
	"graph/gencode":                "",
	"graph/toolchain/host":         "graph/gencode",
	"graph/toolchain":              "hcl/manifest graph graph/fileset graph/gencode graph/modinfo graph/toolchain/host",
	"graph/toolchain/find":         "hcl/manifest graph/toolchain graph/toolchain/host",
	"graph/toolchain/dryruntest":   "graph/gencode",
	"graph/toolchain/nvcc":         "hcl/manifest graph graph/gencode graph/toolchain graph/toolchain/cuda graph/toolchain/host graph/toolchain/optfile graph/toolchain/find cache",
	"graph/toolchain/clang":        "hcl/manifest graph graph/gencode graph/toolchain graph/toolchain/host graph/toolchain/find",
	"graph/toolchain/hip":          "hcl/manifest graph graph/gencode graph/modinfo graph/toolchain graph/toolchain/clang graph/toolchain/host graph/toolchain/find",
	"graph/toolchain/clangcuda":    "hcl/manifest graph graph/gencode graph/toolchain graph/toolchain/clang graph/toolchain/cuda graph/toolchain/host graph/toolchain/find",
	"graph/toolchain/cuda":         "hcl/manifest graph graph/gencode graph/modinfo graph/toolchain",
	"graph/modinfo":                "graph/gencode",
	"graph/toolchain/vendors":      "hcl/manifest graph graph/gencode graph/modinfo graph/toolchain graph/toolchain/clangcuda graph/toolchain/find graph/toolchain/hip graph/toolchain/host graph/toolchain/nvcc graph/toolchain/optfile graph/toolchain/clang cache",
	"graph/plan":                   "hcl/manifest graph graph/fileset graph/gencode graph/modinfo graph/toolchain graph/toolchain/host graph/toolchain/vendors",
	"actions/tooltest":             "",
	"actions/strace":               "",
	"actions/advice":               "graph graph/toolchain graph/toolchain/vendors actions/fatbin actions/modules cache",
	"actions/toolkit":              "graph/toolchain actions/run cache/regular",
	"actions/probe":                "graph/gencode graph/plan graph/toolchain graph/toolchain/host graph/toolchain/vendors actions/fatbin actions/run cache cache/regular cache/trace graph/toolchain/find",
	"actions/fatbin":               "graph/gencode cache/regular",
	"actions/install":              "hcl/manifest graph/gencode graph/plan graph/toolchain/cuda actions/fatbin cache cache/regular",
	"actions/modules":              "graph/gencode graph/modinfo actions/fatbin cache/regular",
	"actions/run":                  "cache/regular",
	"actions/jobserver":            "",
	"actions/machine":              "",
	"actions/broker":               "actions/machine",
	"actions/sched":                "graph",
	"actions/pptext":               "",
	"actions/engine":               "hcl/manifest graph graph/fileset graph/plan graph/toolchain/host actions/execute actions/inprocess actions/remote actions/probe actions/toolkit actions/run actions/sched cache cache/disk cache/regular cache/remote cache/trace cache/tree graph/toolchain graph/toolchain/find",
	"actions/execute":              "graph graph/fileset graph/toolchain graph/toolchain/host cache actions/advice actions/check actions/discover actions/inprocess actions/pptext actions/fatbin actions/run actions/sched actions/strace cache/regular cache/tree graph/toolchain/vendors",
	"actions/check":                "graph graph/gencode cache actions/fatbin actions/modules cache/regular graph/toolchain graph/toolchain/vendors",
	"actions/inprocess":            "graph graph/fileset graph/gencode graph/modinfo cache actions/fatbin actions/modules cache/regular",
	"actions/remote":               "graph graph/toolchain graph/toolchain/clang cache actions/execute actions/run cache/regular cache/remote",
	"actions/verify":               "graph cache actions/execute actions/sched actions/strace cache/regular graph/toolchain/clang graph/toolchain/vendors",
	"actions/discover":             "graph graph/toolchain graph/toolchain/host graph/toolchain/nvcc cache cache/regular graph/toolchain/clang",
	"cache":                        "cache/regular",
	"cache/disk":                   "cache cache/regular",
	"cache/regular":                "",
	"cache/trace":                  "cache cache/regular",
	"cache/tree":                   "cache cache/regular cache/trace",
	"cache/remote":                 "cache",
	"cache/reapi":                  "cache cache/disk cache/remote",
	"cmd/kbuild-remote":            "cache/reapi",
	"cmd/kbuild-cc":                "actions/launch/quick actions/run",
	"actions/launch":               "graph/toolchain/optfile graph graph/plan graph/toolchain graph/toolchain/host graph/toolchain/vendors actions/discover actions/engine actions/execute actions/launch/quick actions/pptext actions/probe actions/run actions/sched cache cache/regular cache/tree",
	"actions/launch/quick":         "actions/run cache cache/disk cache/regular cache/trace",
}

func TestImports(t *testing.T) {
	const module = "github.com/kbuild-dev/kbuild/"
	root := "../.."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && p != root) {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(p, "go.mod")); d.IsDir() && err == nil && p != root {
			return fs.SkipDir // another module
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		rel, _ := filepath.Rel(root, filepath.Dir(p))
		pkg := filepath.ToSlash(rel)
		rule, ok := allowed[pkg]
		if !ok {
			t.Errorf("package %s is not in the import policy", pkg)
			return nil
		}
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			if ours, ok := strings.CutPrefix(path, module); ok && rule != "*" && !slices.Contains(strings.Fields(rule), ours) {
				t.Errorf("%s imports %s", p, ours)
			}
			if pkg != "hcl/manifest" && (strings.HasPrefix(path, "github.com/hashicorp/hcl") || strings.HasPrefix(path, "github.com/zclconf")) {
				t.Errorf("%s imports %s: only hcl/manifest may", p, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < len(allowed)/2 {
		t.Errorf("only %d packages seen", len(seen))
	}
}

// TestNotLinked names packages that take long to initialize, which every null build would pay for.
func TestNotLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	slow := []string{"github.com/google/go-cmp/cmp", "github.com/hashicorp/hcl/v2/hclwrite",
		"google.golang.org/grpc", "google.golang.org/protobuf/proto", "net/http", "text/template"}
	for _, path := range strings.Fields(string(out)) {
		if slices.Contains(slow, path) {
			t.Errorf("kbuild links %s; see go mod why -m", path)
		}
	}
}
