package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWatch(t *testing.T) {
	const start = `{"Time":"2026-01-02T03:00:00Z","Package":"p",`
	lines := []string{
		start + `"Action":"start"}`,
		start + `"Action":"run","Test":"TestGood"}`,
		start + `"Action":"output","Test":"TestGood","Output":"a log\n"}`,
		start + `"Action":"pass","Test":"TestGood"}`,
		start + `"Action":"run","Test":"TestParallel"}`,
		start + `"Action":"pause","Test":"TestParallel"}`,
		start + `"Action":"run","Test":"TestHangs"}`,
		start + `"Action":"run","Test":"TestHangs/here"}`,
		"tick",
		start + `"Action":"run","Test":"TestBad"}`,
		start + `"Action":"output","Test":"TestBad","Output":"=== RUN   TestBad\n"}`,
		start + `"Action":"output","Test":"TestBad/sub","Output":"    wrong\n"}`,
		start + `"Action":"fail","Test":"TestBad/sub"}`,
		start + `"Action":"output","Test":"TestBad","Output":"--- FAIL: TestBad\n"}`,
		start + `"Action":"fail","Test":"TestBad"}`,
		start + `"Action":"output","Test":"TestHangs/here","Output":"panic: killed\n"}`,
		start + `"Action":"output","Output":"FAIL\tp\t1.0s\n"}`,
		start + `"Action":"fail"}`,
		"tick",
		`{"ImportPath":"q","Action":"build-output","Output":"q.go:1:1: wrong\n"}`,
		"no event",
	}
	events, tick := make(chan []byte), make(chan time.Time)
	go func() {
		defer close(events)
		for _, line := range lines {
			if line == "tick" {
				tick <- time.Date(2026, 1, 2, 3, 2, 0, 0, time.UTC)
			} else {
				events <- []byte(line + "\n")
			}
		}
	}()
	var got strings.Builder
	watch(&got, events, tick)
	want := `running  p TestHangs/here 2m0s
    wrong
--- FAIL: TestBad
FAIL	p	1.0s
panic: killed
q.go:1:1: wrong
no event
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
