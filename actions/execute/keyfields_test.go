package execute

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/graph"
)

// notInKey lists the fields of an action that its key need not have, with the reason.
var notInKey = map[string]string{
	"Action.ID":                         "it only names the action, for messages and selection",
	"Action.Target":                     "it only names the action, for messages and selection",
	"Action.Name":                       "it only names the action, for messages and selection",
	"Action.Mode":                       "it only names the action, for messages and selection",
	"Action.Pos.File":                   "it only names the action, for messages and selection",
	"Action.Pos.Line":                   "it only names the action, for messages and selection",
	"Action.Pos.Column":                 "it only names the action, for messages and selection",
	"Action.Archs":                      "the arguments have them, and inprocess.WriteKey where there are none",
	"Action.OrderOnly":                  "what the command reads of them is discovered",
	"Action.Depfile":                    "what the command reads of them is discovered",
	"Action.SearchDirs":                 "what the command reads of them is discovered",
	"Action.Work.Test.LibDirs":          "what the command reads of them is discovered",
	"Action.Pool":                       "it decides when the action runs",
	"Action.Memory":                     "it decides when the action runs",
	"Action.Work.Test.Each":             "it decides when the action runs",
	"Action.InPlace":                    "it decides where the outputs are until they are published, or kept",
	"Action.Transient":                  "it decides where the outputs are until they are published, or kept",
	"Action.Work.Keep.Dir":              "it decides where the outputs are until they are published, or kept",
	"Action.Work.Keep.Files":            "it decides where the outputs are until they are published, or kept",
	"Action.Work.Response.From":         "a response file has the same arguments",
	"Action.Work.Response.Flag":         "a response file has the same arguments",
	"Action.Work.Response.List":         "a response file has the same arguments",
	"Action.Work.Driver.Argv":           "the arguments of the passes are learned from it",
	"Action.Work.Driver.DryRunKey":      "the arguments of the passes are learned from it",
	"Action.Work.Driver.UnsplitReason":  "the arguments of the passes are learned from it",
	"Action.Work.Driver.Fallback":       "the arguments of the passes are learned from it",
	"Action.Work.Pass.DiagnosticInputs": "it changes messages; what it changes is a condition of the record",
	"Action.Work.Pass.DiagnosticArgv":   "it changes messages; what it changes is a condition of the record",
	"Action.Work.Pass.Macros":           "it changes messages; what it changes is a condition of the record",
	"Action.Work.Pass.ResourceUsage":    "it changes messages; what it changes is a condition of the record",
	"Action.Work.Pass.UnkeyedPaths":     "it says how the files that the arguments name are read",
	"Action.Work.Pass.DepfileArgvs":     "it says how the files that the arguments name are read",
	"Action.Work.Pass.TextArgv":         "it says how the files that the arguments name are read",
	"Action.Work.Pass.DepfileOutput":    "the outputs, which are in the key, have it",
	"Action.Work.Pass.FilesOutput":      "the outputs, which are in the key, have it",
	"Action.Work.Pass.Stub":             "the outputs, which are in the key, have it",
	"Action.Work.Pass.Gate":             "the arguments of such a command name no output",
	"Action.Work.Pass.EmptyCwd":         "all actions of the kind have it",
	"Action.Work.Link.LTO":              "the arguments have it",
	"Action.Work.Link.Check":            "it decides how a failure is explained",
	"Action.Work.Link.UnknownOptions":   "it is for messages",
	"Action.Work.Link.Foreign":          "it is for messages",
	"Action.Work.Link.Owners":           "it is for messages",
	"Action.Work.Link.OwnerPos":         "it is for messages",
	"Action.Work.Link.KeepsAll":         "it is for messages",
	"Action.Work.Container":             "the names of the inputs, which are in the key, have it",
}

// TestKeyHasFields changes one field of an action at a time. The key changes, or notInKey says why
// it need not. So a new field is either in the key, or somebody has thought about it.
func TestKeyHasFields(t *testing.T) {
	r := New(Config{Graph: &graph.Graph{BuildDir: "build"}, Root: "/project", State: "/project/build/.kbuild", Tools: map[string]string{}, GPUEnv: []string{"CUDA_VISIBLE_DEVICES=0"}})
	fields := func(a *graph.Action) []cache.Field {
		key := actionKey{}
		for _, in := range a.Inputs {
			key.inputs = append(key.inputs, cache.FileDigest{Path: in})
		}
		return r.keys.fields(a, key)
	}
	base := func() *graph.Action {
		return &graph.Action{Kind: graph.CICC, Argv: []string{"cicc", "-O2"}, Outputs: []string{"build/a.ptx"}, Tools: []string{"nvcc"}, Work: graph.Work{
			Response: &graph.Response{}, Keep: &graph.KeepFolder{}, Manifest: new(graph.ManifestTemplate), Driver: &graph.Driver{},
			Pass: &graph.CompilerPass{FilesOutput: "build/a.files"}, Link: &graph.Link{}, Test: &graph.TestRun{}, Collect: &graph.Collect{}}}
	}
	without := fields(base())
	seen := map[string]bool{}
	var change func(name string, at func(*graph.Action) reflect.Value)
	change = func(name string, at func(*graph.Action) reflect.Value) {
		if v := at(base()); v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				change(name+"."+v.Type().Field(i).Name, func(a *graph.Action) reflect.Value { return at(a).Field(i) })
			}
			return
		} else if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
			change(name, func(a *graph.Action) reflect.Value { return at(a).Elem() })
			return
		}
		a := base()
		set(t, at(a))
		seen[name] = true
		reason, not := notInKey[name]
		switch changed := !cmp.Equal(without, fields(a)); {
		case changed && not:
			t.Errorf("%s is in the key, though %s", name, reason)
		case !changed && !not:
			t.Errorf("%s is not in the key: add it, or a line to notInKey", name)
		}
	}
	change("Action", func(a *graph.Action) reflect.Value { return reflect.ValueOf(a).Elem() })
	for name := range notInKey {
		if !seen[name] {
			t.Errorf("notInKey has %s, but an action has no such field", name)
		}
	}
}

// set changes v to another value.
func set(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Slice:
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.Struct {
			set(t, e.Field(0))
		} else {
			set(t, e)
		}
		v.Set(reflect.Append(v, e))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		set(t, key)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(t, v.Elem())
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}
