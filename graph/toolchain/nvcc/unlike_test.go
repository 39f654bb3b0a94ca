package nvcc

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An nvcc that is newer than any known may show its steps in another order, quote otherwise, and
// add options and variables. What is learned is the same then, and the new options are handed on.

const newOption, newFlag = "--new-option", "-new-flag=3"

// TestUnlike changes each recorded answer as a newer nvcc might.
func TestUnlike(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range modes(t) {
		t.Run(m.toolkit+"/"+m.name, func(t *testing.T) {
			want, _ := learnedOf(t, m, m.text)
			for range 4 {
				text := unlike(r, m.text)
				got, env := learnedOf(t, m, text)
				for i, p := range got {
					lines := strings.Split(p, "\n")
					if !slices.Contains(lines, "  "+newFlag) || !slices.Contains(lines, "  "+newOption) {
						t.Errorf("new options are lost:\n%s", p)
					}
					lines = slices.DeleteFunc(lines, func(l string) bool { return l == "  "+newFlag || l == "  "+newOption || l == "  value" })
					got[i] = strings.Join(lines, "\n")
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("learned otherwise (-want +got):\n%s\n%s", diff, text)
				}
				if !slices.Contains(env, "NEW_VARIABLE=/new") {
					t.Errorf("the steps run with %q", env)
				}
			}
		})
	}
}

// learnedOf are the passes of an answer, sorted, and their variables.
func learnedOf(t *testing.T, m mode, text string) (passes, env []string) {
	t.Helper()
	if m.link() {
		l, err := LearnLink(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		passes, env = linkPasses(l), l.Env
	} else {
		c, err := LearnCompile(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		passes, env = compilePasses(c), c.Env
	}
	slices.Sort(passes)
	return passes, env
}

// unlike writes an answer in another way.
func unlike(r *rand.Rand, text string) string {
	var head, steps []string
	for line := range strings.Lines(text) {
		step, ok := strings.CutPrefix(line, "#$ ")
		if ok && !variableRE.MatchString(step) {
			steps = append(steps, withOptions(r, strings.TrimSpace(step)))
		} else {
			head = append(head, line)
		}
	}
	head = append(head, "#$ NEW_ROOT=/cuda\n", "#$ NEW_VARIABLE=/new\n", "#$ _NEW_=$UNKNOWN\n")
	for _, step := range shuffled(r, steps) {
		head = append(head, "#$ "+step+"\n")
	}
	return strings.Join(head, "")
}

var (
	variableRE = regexp.MustCompile(`^[A-Za-z_]+=`)
	wordRE     = regexp.MustCompile(`(?:"(?:\\.|[^"\\])*"|[^\s"])+`)
	fileRE     = regexp.MustCompile(`kbuild_(?:keep/[\w.]+|output)`)
)

// withOptions adds an option, and one with a value of its own, in the middle of a step, and quotes
// it otherwise.
func withOptions(r *rand.Rand, step string) string {
	words := wordRE.FindAllString(step, -1)
	for _, added := range [][]string{{newFlag}, {newOption, "value"}} {
		var places []int
		for i, w := range words {
			if strings.HasPrefix(w, "-") && w != "-o" && words[i-1] != "--preview" {
				places = append(places, i)
			}
		}
		words = slices.Insert(words, places[r.IntN(len(places))], added...)
	}
	for i, w := range words {
		inner, ok := strings.CutPrefix(strings.TrimSuffix(w, `"`), `"`)
		if !ok || strings.ContainsAny(inner, "\"\\'$") {
			continue
		}
		switch r.IntN(4) {
		case 0:
			words[i] = "'" + inner + "'"
		case 1:
			words[i] = strings.NewReplacer(" ", `\ `, "/cuda", "${NEW_ROOT}").Replace(inner)
		case 2:
			words[i] = `"` + strings.ReplaceAll(inner, "/cuda", "$NEW_ROOT") + `"`
		}
	}
	return strings.Join(words, "  ")
}

// shuffled puts steps into another order that has each behind the steps before it that name a file
// which it names.
func shuffled(r *rand.Rand, steps []string) (out []string) {
	files := func(s string) []string {
		return slices.DeleteFunc(fileRE.FindAllString(s, -1), func(f string) bool { return strings.HasSuffix(f, ".module_id") })
	}
	for left := slices.Clone(steps); len(left) > 0; {
		i := r.IntN(len(left))
		for j := 0; j < i; j++ {
			if slices.ContainsFunc(files(left[i]), func(f string) bool { return slices.Contains(files(left[j]), f) }) {
				i, j = j, -1 // that one first, if nothing stands before it
			}
		}
		out, left = append(out, left[i]), slices.Delete(left, i, i+1)
	}
	return out
}

// TestUnknownSteps adds what cannot be taken apart to each recorded answer: nothing of it is
// dropped, and the fault names it.
func TestUnknownSteps(t *testing.T) {
	for _, m := range modes(t) {
		for _, tt := range []struct{ name, step, fault string }{
			{name: "a check without an output", step: `ptxlint --strict "kbuild_keep/kbuild_source.ptx"`, fault: "a step that is not known: ptxlint"},
			{name: "a check with options of a compiler", step: `ptxlint -c "kbuild_keep/kbuild_source.ptx"`},
			{name: "a step with a variable", step: `LEVEL=2 ptxas -arch=sm_80 "kbuild_keep/kbuild_source.ptx"`, fault: "a step that is not known: LEVEL=2"},
			{name: "a step of the shell", step: `if true; then ptxas -arch=sm_80; fi`, fault: "the shell's ';'"},
			{name: "no architecture", step: `ptxas -m64 "kbuild_keep/kbuild_source.ptx" -o "kbuild_keep/new.cubin"`, fault: "ptxas does not say for which architecture"},
			{name: "a file that is not known", step: `ptxas -arch=sm_80 --report "kbuild_keep/new.report" -o "kbuild_keep/new.cubin"`, fault: "an argument that is not known"},
		} {
			text := strings.TrimRight(m.text, "\n") + "\n#$ " + tt.step + "\n"
			var err error
			if m.link() {
				_, err = LearnLink(text)
			} else {
				_, err = LearnCompile(text)
			}
			if err == nil || !strings.Contains(err.Error(), tt.fault) && !strings.Contains(err.Error(), "twice") && !m.link() {
				t.Errorf("%s/%s, %s: %v; want an error about %s", m.toolkit, m.name, tt.name, err, tt.fault)
			}
		}
	}
}
