package run

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// What is kept is the beginning and the end, in whatever pieces it comes.
func TestOutput(t *testing.T) {
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	all := text.String()
	for _, piece := range []int{1, 7, 64, 100, 999, len(all)} {
		for _, size := range []int{0, 1, 99, 100, 101, 199, 200, 201, 250, 1000, len(all)} {
			o := output{half: 100}
			for at := 0; at < size; at += piece {
				o.Write([]byte(all[at:min(size, at+piece)]))
			}
			printed, left := o.bytes()
			check(t, all[:size], string(printed), left)
		}
	}
}

func check(t *testing.T, all, printed string, left int64) {
	t.Helper()
	if len(all) <= 200 {
		if printed != all || left != 0 {
			t.Errorf("of %d bytes: %q, %d left out", len(all), printed, left)
		}
		return
	}
	note := fmt.Sprintf("kbuild: %d bytes of output are left out here\n", left)
	head, tail, ok := strings.Cut(printed, note)
	if !ok || !strings.HasPrefix(all, head) || !strings.HasSuffix(all, tail) || int(left) != len(all)-len(head)-len(tail) || len(head)+len(tail) > 200 || len(head)+len(tail) < 180 {
		t.Errorf("of %d bytes: %q, %d left out", len(all), printed, left)
	}
}

// A line longer than all that is kept, and one that is no text.
func TestOutputWithoutLines(t *testing.T) {
	o := output{half: 100}
	for range 1000 {
		o.Write(bytes.Repeat([]byte{0xff}, 100))
	}
	if printed, left := o.bytes(); left != 100*1000-200 || len(printed) > 300 {
		t.Errorf("%d bytes, %d left out", len(printed), left)
	}
	if cap(o.head)+cap(o.tail) > 1000 {
		t.Errorf("it holds %d bytes", cap(o.head)+cap(o.tail))
	}
}

// A hundred megabytes that a command says are not held by kbuild, and it is not stopped.
func TestMuchOutput(t *testing.T) {
	res, err := Run(t.Context(), Command{Argv: []string{"sh", "-c", "echo first; head -c 100000000 /dev/zero | tr '\\0' '\\n'; echo last"}, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil || res.ExitCode != 0 {
		t.Fatal(res.ExitCode, err)
	}
	if !bytes.HasPrefix(res.Output, []byte("first\n")) || !bytes.HasSuffix(res.Output, []byte("\nlast\n")) || len(res.Output) > DefaultOutput+100 || res.LeftOut == 0 {
		t.Errorf("%d bytes are kept, %d left out", len(res.Output), res.LeftOut)
	}
}
