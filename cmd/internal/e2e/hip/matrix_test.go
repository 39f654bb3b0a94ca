package hip_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
	"github.com/kbuild-dev/kbuild/cmd/internal/e2e"
)

// The matrix is what kbuild promises for HIP, held against one hipcc in each mode with each of
// clang's offload drivers. It needs no GPU, no CUDA and no headers of HIP: `make test-toolkits`
// runs it in systems with other versions.
//
// KBUILD_TEST_MATRIX_ARCHS are two architectures in place of the usual, KBUILD_TEST_MATRIX_FLAGS
// more options of all compiles.

// row is one way to build.
type row struct {
	*example
	mode  string
	archs []string
	flags []string // that choose the driver, and more
	found []string // columns and what was found

	unlike map[string]string // columns that are not as promised, and why
}

// driverFlags are the options that choose a driver, by its name.
var driverFlags = map[string]string{"old": "--no-offload-new-driver", "new": "--offload-new-driver"}

func TestMatrix(t *testing.T) {
	hip, clang := versions(t)
	for _, driver := range []string{"old", "new"} {
		for _, mode := range []string{"whole", "rdc", "lto"} {
			t.Run(driver+" "+mode, func(t *testing.T) {
				if driver+mode != "oldlto" {
					tooltest.Broad(t)
				}
				t.Parallel()
				e := &example{e2e.Bare(t).Unpack("matrix")}
				e.Need("hipcc")
				e.withoutBlanks()
				r := &row{example: e, mode: mode, archs: strings.Split(cmp.Or(os.Getenv("KBUILD_TEST_MATRIX_ARCHS"), "gfx906,gfx90a"), ",")}
				r.choose(driver)
				r.flags = append(r.flags, strings.Fields(os.Getenv("KBUILD_TEST_MATRIX_FLAGS"))...)
				if major, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(clang)); os.Getenv("KBUILD_TEST_MATRIX_ARCHS")+os.Getenv("KBUILD_TEST_MATRIX_FLAGS") == "" {
					r.unlike = unlike(major, driver, mode)
				}
				r.check()
				t.Logf("MATRIX | %s | %s | %s | %s | %s |", hip, clang, driver, mode, strings.Join(r.found, " | "))
			})
		}
	}
}

// versions are those of HIP and of the clang that hipcc runs.
func versions(t *testing.T) (ofHIP, ofClang string) {
	e := &example{e2e.Bare(t)}
	e.Need("hipcc")
	printed, _ := e.Status([]string{"HIP_PLATFORM=amd"}, "hipcc", "--version")
	hip := regexp.MustCompile(`HIP version: *(\S+)`).FindStringSubmatch(printed)
	clang := regexp.MustCompile(`clang version (\S+)`).FindStringSubmatch(printed)
	if hip == nil || clang == nil {
		t.Fatalf("hipcc says no versions:\n%s", printed)
	}
	return hip[1], clang[1]
}

// choose sets the flags for a driver, unless it is that of this clang.
func (r *row) choose(driver string) {
	args := slices.Concat(r.offload(), []string{"-fgpu-rdc", "-nogpuinc", "-###", "-c", "-x", "hip", "scale.hip", "-o", "x.o"})
	printed, status := r.Status([]string{"HIP_PLATFORM=amd"}, append([]string{"hipcc"}, args...)...)
	if status != 0 {
		r.T.Skipf("hipcc -###: %s", printed)
	}
	isNew := strings.Contains(printed, "-fembed-offload-object=")
	if isNew != (driver == "new") {
		r.flags = []string{driverFlags[driver]}
		if printed, status := r.Status([]string{"HIP_PLATFORM=amd"}, slices.Concat([]string{"hipcc"}, args, r.flags)...); status != 0 || strings.Contains(printed, "unknown argument") {
			r.T.Skipf("this hipcc has no %s driver: %s", driver, printed)
		}
	}
}

// note is a cell of the table.
func (r *row) note(column string, ok bool, format string, args ...any) {
	cell, known := "yes", r.unlike[column]
	switch {
	case !ok && known == "":
		cell = "NO"
		r.T.Errorf("%s: "+format, append([]any{column}, args...)...)
	case !ok:
		cell = "no"
	case known != "":
		r.T.Errorf("%s: it works, and should not: %s", column, known)
	}
	r.found = append(r.found, column+" "+cell)
}

// unlike says what is otherwise with a version of clang, and why.
func unlike(major int, driver, mode string) map[string]string {
	switch {
	case driver == "old":
		return nil
	case mode == "whole" && major == 21:
		const why = "clang-linker-wrapper -r makes the object"
		return map[string]string{"apart": why, "arch": why, "comment": why}
	case mode == "whole" || major >= 21:
		return nil
	}
	const why = "clang-linker-wrapper optimises in its own process"
	cells := map[string]string{"apart": why, "prebuilt": why}
	if major < 16 {
		cells["comment"] = "clang-linker-wrapper does not let the linker say which files it looked for, so a link runs each time"
	}
	return cells
}

// args are kbuild's, with the variables of the manifest.
func (r *row) args(more ...string) []string {
	args := append([]string{"--var", "mode=" + r.mode, "--var", `archs=["` + strings.Join(r.archs, `","`) + `"]`}, more...)
	if r.flags != nil {
		args = append(args, "--var", `flags=["`+strings.Join(r.flags, `","`)+`"]`)
	}
	return args
}

// event is an action that ran.
type event struct {
	Event, Kind, Name, Target, Status string
	Archs                             []string
}

// build runs kbuild; ok is false if it fails. ran are the actions that ran.
func (r *row) build(args ...string) (ran []event, printed string, ok bool) {
	argv := append([]string{"kbuild", "--json"}, args...)
	cmd := r.Command(argv...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	for _, line := range strings.Split(out.String(), "\n") {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == "action_finished" && e.Status == "ran" {
			ran = append(ran, e)
		}
	}
	return ran, fmt.Sprintf("%v\n%.3000s\n%.1500s", err, errs.String(), tail(out.String(), 1500)), err == nil
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// kindsOf counts actions by kind.
func kindsOf(ran []event) map[string]int {
	n := map[string]int{}
	for _, e := range ran {
		n[e.Kind]++
	}
	return n
}

func (r *row) check() {
	ran, printed, ok := r.build(r.args("executable.app", "library.plugin")...)
	r.note("builds", ok, "%s", printed)
	if !ok {
		return
	}
	n := kindsOf(ran)
	links := 4 // two architectures, two links
	if r.mode == "whole" {
		links = 0
	}
	r.note("apart", n["compile"] == 0 && n["lld"] >= links, "ran %v", n)
	r.objects()
	r.linkedCode()
	r.module()
	r.prebuilt()
	r.folders()
	r.architecture()
	r.comment()
}

// objects compares the objects with hipcc's, given the same -cuid.
func (r *row) objects() {
	var other []string
	for _, f := range []string{"app.hip", "plugin.hip", "scale.hip"} {
		object := "build/obj/executable.app/" + f + ".o"
		var pic []string
		if f != "app.hip" {
			object, pic = "build/obj/library.plugin/"+f+".o", []string{"-fPIC"}
		}
		r.compile(f, "plain-"+f+".o", slices.Concat(pic, []string{"-cuid=" + r.cuid(filepath.Base(filepath.Dir(object)), f, r.args()...)})...)
		if !bytes.Equal(r.Read(object), r.Read("plain-"+f+".o")) {
			other = append(other, object)
		}
	}
	r.note("objects", other == nil, "not hipcc's: %s", other)
}

// offload are hipcc's options for the architectures.
func (r *row) offload() (options []string) {
	for _, a := range r.archs {
		options = append(options, "--offload-arch="+a)
	}
	return options
}

// modeFlags are hipcc's for a mode.
func (r *row) modeFlags() []string {
	mode := map[string][]string{"whole": {"-fno-gpu-rdc", "-DLINKED=0"}, "rdc": {"-fgpu-rdc", "-DLINKED=1"}, "lto": {"-fgpu-rdc", "-foffload-lto", "-DLINKED=1"}}[r.mode]
	return slices.Concat(r.offload(), mode, []string{"-nogpuinc"}, r.flags)
}

func (r *row) compile(source, object string, more ...string) {
	r.T.Helper()
	r.hipcc(slices.Concat(r.modeFlags(), more, []string{"-c", "-x", "hip", source, "-o", object})...)
}

// linkedCode compares the code of the program and of the shared library with that of hipcc's link
// of the same objects.
func (r *row) linkedCode() {
	var other []string
	for _, l := range []struct {
		made    string
		objects []string
		more    []string
	}{
		{"build/bin/app", []string{"executable.app/app.hip.o", "library.scale/scale.hip.o", "executable.app/main.cpp.o"}, nil},
		{"build/lib/libplugin.so", []string{"library.plugin/plugin.hip.o", "library.plugin/scale.hip.o"}, []string{"-shared"}},
	} {
		argv := slices.Concat(r.modeFlags(), l.more, []string{"--hip-link", "-o", "plain"})
		for _, o := range l.objects {
			argv = append(argv, "build/obj/"+o)
		}
		r.hipcc(argv...)
		if !bytes.Equal(r.amdCode(l.made), r.amdCode("plain")) {
			other = append(other, l.made)
		}
		if l.more == nil {
			plain, made := r.registered("./plain"), r.registered(l.made)
			r.note("registers", plain == made && strings.Contains(made, "counted"), "hipcc's program registers\n%sand kbuild's\n%s", plain, made)
		}
	}
	r.note("code", other == nil, "not hipcc's: %s", other)
}

// registered is what a program tells the runtime of its device code, sorted: the test has a runtime
// of its own.
func (r *row) registered(program string) string {
	r.T.Helper()
	r.Run("cc", "-shared", "-fPIC", "runtime.c", "-o", "runtime.so")
	out, _ := r.Run("sh", "-c", "LD_PRELOAD=./runtime.so "+program+" | sort")
	return out
}

// below is a project in a folder of its own, with the sources.
func (r *row) below(folder string) *row {
	r.Run("cp", "hip.h", "scale.h", "scale.hip", "plugin.hip", folder)
	q := *r
	q.example = &example{*r.In(filepath.Join(r.Dir, folder))}
	return &q
}

// module makes one, and compares its bundle with hipcc's.
func (r *row) module() {
	m := r.below("module")
	_, printed, ok := m.build(m.args()...)
	r.note("module", ok, "%s", printed)
	if !ok || r.mode != "whole" {
		return
	}
	files, _ := filepath.Glob(filepath.Join(m.Dir, "build/modules/loaded/plugin*.fatbin"))
	if len(files) != 1 {
		r.T.Fatalf("fatbins of plugin.hip: %v", files)
	}
	genco := slices.Concat([]string{"hipcc", "--genco"}, r.offload(), []string{"-DLINKED=0", "-nogpuinc", "-cuid=" + m.cuid("module.loaded", "plugin.hip", m.args()...), "-x", "hip", "plugin.hip", "-o", "plain.co"})
	if _, status := m.Status([]string{"HIP_PLATFORM=amd"}, append(genco, r.flags...)...); status != 0 { // clang 17 with the new driver
		m.hipcc(genco[1:]...)
	}
	made, _ := os.ReadFile(files[0])
	r.note("genco", bytes.Equal(made, m.Read("plain.co")), "not hipcc's")
}

// prebuilt links an archive of hipcc's objects.
func (r *row) prebuilt() {
	r.compile("scale.hip", "scale.o", "-fPIC")
	p := r.below("prebuilt")
	r.Run("ar", "rcs", "prebuilt/libpre.a", "scale.o")
	_, printed, ok := p.build(p.args()...)
	if ok {
		for _, kernel := range []string{"plugged", "scaled"} {
			if code := p.amdCode("build/lib/libuses.so"); r.mode != "whole" && !bytes.Contains(code, []byte(kernel)) {
				ok, printed = false, "no kernel "+kernel
			}
		}
	}
	r.note("prebuilt", ok, "%s", printed)
}

// folders builds in another folder, with an empty cache.
func (r *row) folders() {
	files := []string{"build/bin/app", "build/lib/libplugin.so", "build/obj/executable.app/app.hip.o"}
	other := r.Checkout(r.T, "at", "another", "depth")
	other.Kbuild(r.args("executable.app", "library.plugin")...)
	var differ []string
	for _, f := range files {
		if !bytes.Equal(r.Read(f), other.Read(f)) {
			differ = append(differ, f)
		}
	}
	r.note("folders", differ == nil, "other bytes: %s", differ)
}

// architecture ships one more: what compiles and links device code does so for that alone, and no
// host code of a source compiles.
func (r *row) architecture() {
	q := *r
	q.archs = append(slices.Clone(r.archs), "gfx1030")
	ran, printed, ok := q.build(q.args("executable.app", "library.plugin")...)
	if !ok {
		r.note("arch", false, "%s", printed)
		return
	}
	var others []string
	for _, e := range ran {
		device := slices.Contains([]string{"device-code", "lld", "compile"}, e.Kind)
		source := strings.HasSuffix(e.Name, ".hip") && e.Kind == "host-part"
		if device && !slices.Equal(e.Archs, []string{"gfx1030"}) || source {
			others = append(others, fmt.Sprint(e.Kind, " ", e.Name, " ", e.Archs))
		}
	}
	r.note("arch", others == nil, "also ran: %q", others)
	r.build(r.args("executable.app", "library.plugin")...)
}

// comment edits one in a header: the passes that read it run, and nothing behind them.
func (r *row) comment() {
	r.Edit("scale.h", "// scale", "// scale a number")
	ran, printed, ok := r.build(r.args("executable.app", "library.plugin")...)
	n := kindsOf(ran)
	passes := n["device-code"] + n["host-part"]
	delete(n, "device-code")
	delete(n, "host-part")
	r.note("comment", ok && passes > 0 && len(n) == 0, "%s ran %v", cmp.Or(printed, "-"), n)
}
