package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scriptedChanges are changes that a test has written down; between them "wait" is that nothing
// changes for a while.
type scriptedChanges struct {
	script []string
	until  time.Time
	ended  error
}

func (c *scriptedChanges) settle(until time.Time) { c.until = until }

func (c *scriptedChanges) next() ([]string, error) {
	if len(c.script) == 0 {
		return nil, c.ended
	}
	first := c.script[0]
	c.script = c.script[1:]
	time.Sleep(quiet / 2) // between two changes
	if first == "wait" || !c.until.IsZero() && !time.Now().Before(c.until) {
		return nil, os.ErrDeadlineExceeded
	}
	return strings.Fields(first), nil
}

// absolute paths concern a test.
type absolute struct{}

func (absolute) Concerns(p string) bool { return p != "" && p[0] == '/' }

func TestSettled(t *testing.T) { synctest.Test(t, testSettled) }

func testSettled(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		left               int
	}{
		{"one", "/a,wait,/b", "/a", 1},
		{"several steps of an editor", "x,/a.tmp,/a,/a,wait", "/a.tmp /a /a", 0},
		{"what concerns nobody does not put it off", "/a,x,x,x,x,wait", "/a", 3},
		{"and starts nothing", "x,x,/b,wait", "/b", 0},
	} {
		changes := &scriptedChanges{script: strings.Split(c.script, ",")}
		got := settled(changes, absolute{})
		if strings.Join(got, " ") != c.want || len(changes.script) != c.left {
			t.Errorf("%s: %q, and %q are left", c.name, got, changes.script)
		}
	}
	if got := settled(&scriptedChanges{script: []string{"/a"}, ended: errors.New("closed")}, absolute{}); got != nil {
		t.Errorf("at the end: %q", got)
	}
	missed := &missedChanges{}
	if got := settled(missed, absolute{}); !slices.Equal(got, []string{""}) {
		t.Errorf("where some were missed: %q", got)
	}
}

// missedChanges are one report that some were missed.
type missedChanges struct{ told bool }

func (c *missedChanges) settle(time.Time) {}

func (c *missedChanges) next() ([]string, error) {
	if c.told {
		return nil, os.ErrDeadlineExceeded
	}
	c.told = true
	return []string{""}, nil
}
