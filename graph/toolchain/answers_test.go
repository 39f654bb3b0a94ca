package toolchain

import (
	"errors"
	"strings"
	"testing"
)

// An answer is read once; a question without one is asked once.
func TestAnswers(t *testing.T) {
	question := func(arg string) Question { return Question{Tool: "nvcc", By: "nvcc --dryrun", Args: []string{arg}} }
	a := &Answers{Runs: map[string]DryRun{
		question("good").Key():      {Text: "steps"},
		question("error").Key():     {Error: "no such option"},
		question("misparsed").Key(): {Text: "steps", SplitFailure: "its cicc failed"},
	}}
	reads := 0
	read := func(text string) (*string, error) {
		reads++
		return &text, nil
	}
	for _, tt := range []struct{ arg, want, fault string }{
		{"good", "steps", ""},
		{"error", "", "nvcc --dryrun: no such option"},
		{"misparsed", "", "its cicc failed"},
		{"new", "", ErrNotQueried.Error()},
	} {
		for range 2 {
			got, err := Learn(a, question(tt.arg), read)
			switch {
			case tt.fault != "" && (err == nil || err.Error() != tt.fault):
				t.Errorf("%s: %v, want %s", tt.arg, err, tt.fault)
			case tt.fault == "" && (err != nil || *got != tt.want):
				t.Errorf("%s: %v", tt.arg, err)
			}
		}
	}
	if reads != 1 || len(a.Questions) != 1 || a.Questions[0].Args[0] != "new" {
		t.Errorf("%d answers were read, and %q is asked", reads, a.Questions)
	}
	var e DriverError
	if _, err := Learn(a, question("error"), read); !errors.As(err, &e) || !strings.Contains(e.Printed, "option") {
		t.Errorf("%v is no error of the driver", err)
	}
}
