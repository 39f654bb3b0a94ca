package manifest

import (
	"testing"
	"testing/fstest"
)

const threeVariables = `
variable "mode" {
  type    = string
  default = "whole"
}
variable "archs" {
  type    = list(string)
  default = ["sm_70"]
}
variable "size" {
  default = 1
}
profile "dev" {
  mode  = "rdc"
  archs = concat(["sm_75"], [])
}
`

func values(p *Project) map[string][2]string {
	out := map[string][2]string{}
	for _, v := range p.Variables {
		out[v.Name] = [2]string{v.Value, v.Source}
	}
	return out
}

// TestPrecedence adds one source of values after another; each must win over all before it.
func TestPrecedence(t *testing.T) {
	fsys := files(threeVariables)
	opts := Options{FS: fsys}
	step := func(what, value, source string) {
		t.Helper()
		expect(t, what, values(load(t, "", opts))["mode"], [2]string{value, source})
	}
	step("default", `"whole"`, "default")
	opts.Profile = "dev"
	step("profile", `"rdc"`, "profile dev")
	fsys[LocalFile] = &fstest.MapFile{Data: []byte("mode = \"lto\"\n")}
	step("local file", `"lto"`, "kernels.local.hcl")
	opts.Env = func(name string) (string, bool) { return "whole", name == "KBUILD_VAR_mode" }
	step("environment", `"whole"`, "environment KBUILD_VAR_mode")
	opts.Vars = map[string]string{"mode": "rdc"}
	step("--var", `"rdc"`, "--var")
}

func TestFilesNamesWhatWasRead(t *testing.T) {
	fsys := files(threeVariables)
	expect(t, "without local", load(t, "", Options{FS: fsys}).Files, []string{"kernels.hcl"})
	fsys[LocalFile] = &fstest.MapFile{Data: []byte("size = 2\n")}
	expect(t, "with local", load(t, "", Options{FS: fsys}).Files, []string{"kernels.hcl", "kernels.local.hcl"})
}

func TestTextValues(t *testing.T) {
	const manifest = `
variable "s" { type = string }
variable "b" { type = bool }
variable "n" { type = number }
variable "l" { type = list(string) }
variable "i" { type = list(number) }
variable "m" { type = map(string) }
variable "o" { type = object({ a = number, b = list(string) }) }
variable "any" { default = [] }
`
	p := load(t, manifest, Options{Vars: map[string]string{
		"s": "[not, a, list]", "b": "true", "n": "1.5", "l": "sm_80, sm_90", "i": "[1, 2]",
		"m": `{ k = "v" }`, "o": `{ a = "3", b = ["x"] }`, "any": `["x", 1]`,
	}})
	got := map[string]string{}
	for name, v := range values(p) {
		got[name] = v[0]
	}
	expect(t, "values", got, map[string]string{
		"s": `"[not, a, list]"`, "b": `true`, "n": `1.5`, "l": `["sm_80","sm_90"]`, "i": `[1,2]`,
		"m": `{"k":"v"}`, "o": `{"a":3,"b":["x"]}`, "any": `["x",1]`,
	})
}

// TestEnvironmentOnlyByPrefix: a variable of the same name in the environment changes nothing.
func TestEnvironmentOnlyByPrefix(t *testing.T) {
	asked := map[string]bool{}
	load(t, threeVariables, Options{Env: func(name string) (string, bool) { asked[name] = true; return "", false }})
	expect(t, "asked", asked, map[string]bool{"KBUILD_VAR_mode": true, "KBUILD_VAR_archs": true, "KBUILD_VAR_size": true})
}

func TestUntypedVariableTakesTheTypeOfItsDefault(t *testing.T) {
	p := load(t, threeVariables, Options{Vars: map[string]string{"size": "12"}})
	expect(t, "size", values(p)["size"], [2]string{"12", "--var"})
	_, diags := try(threeVariables, Options{Vars: map[string]string{"size": "big"}})
	if !diags.HasErrors() {
		t.Error("a number took text")
	}
}

// Numbers that a double holds, and what format makes of all that fits, are as they were.
func TestSoundNumbers(t *testing.T) {
	for expr, want := range map[string]string{
		"1 / 4":                                   "0.25",
		"-7 % 4":                                  "-3",
		"1.5 * 2 - 1":                             "2",
		`"6" / "3"`:                               "2",
		"max(1, 3) + min(4, 2)":                   "5",
		`format("%03d 100%% %s", 7, "%!d(x)")`:    "007 100% %!d(x)",
		`format("100%%!d(%d)", 7)`:                "100%!d(7)",
		`format("%s", "inf")`:                     "inf",
		`format("%v", [1, "a"])`:                  `[1,"a"]`,
		`join(",", [for x in range(3) : "${x}"])`: "0,1,2",
		`tonumber("1e3")`:                         "1000",
	} {
		p := load(t, "locals {\n  x = "+expr+"\n}\nlibrary \"a\" {\n  sources = [\"bench/main.cpp\"]\n  labels = { x = local.x }\n}\n", Options{})
		if got := p.Targets[0].Labels["x"]; got != want {
			t.Errorf("%s is %q, want %q", expr, got, want)
		}
	}
}
