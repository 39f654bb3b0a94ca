package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
)

// kinds lists the processes that the table counts, in table order.
var kinds = []string{
	"cicc", "ptxas", "nvlink", "cudafe++", "preprocess", "host compile", "fatbinary", "nvcc", "as", "ld",
}

// counts holds the number of processes by kind. "all" counts every program, including shells and
// drivers.
type counts map[string]int

// traced returns a command that runs argv under strace. strace logs every execve of the process
// tree.
func traced(log string, argv []string) []string {
	return append([]string{"strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=execve", "-e", "signal=none", "-o", log}, argv...)
}

var (
	execveLine = regexp.MustCompile(`^(\d+) +execve\("((?:[^"\\]|\\.)*)", \[(.*)$`)
	resumed    = regexp.MustCompile(`^(\d+) +<\.\.\. execve resumed>.*= 0`)
)

// readTrace counts the processes in a log from an offset on.
func (c counts) readTrace(log string, from int64) error {
	f, err := os.Open(log)
	if err != nil {
		return fmt.Errorf("reading the trace: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("reading the trace: %w", err)
	}
	return c.read(f)
}

// read counts each successful execve. A process that runs a wrapper script and then the program of
// the same kind counts once.
func (c counts) read(r io.Reader) error {
	pending, was := map[string]string{}, map[string]string{}
	ran := func(pid, kind string) {
		if was[pid] == kind {
			return
		}
		was[pid] = kind
		c[kind]++
		c["all"]++
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := resumed.FindStringSubmatch(line); m != nil {
			ran(m[1], pending[m[1]])
			continue
		}
		m := execveLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		switch kind := kindOf(m[2], m[3]); {
		case strings.HasSuffix(line, "<unfinished ...>"):
			pending[m[1]] = kind
		case strings.HasSuffix(line, " = 0"):
			ran(m[1], kind)
		}
	}
	return lines.Err()
}

// kindOf returns the kind of a process, given its program and its arguments as strace prints them.
// Programs that only start others (the shell, the g++ driver, collect2) have kinds that the table
// does not show.
func kindOf(program, args string) string {
	base := strings.TrimPrefix(path.Base(program), "x86_64-linux-gnu-")
	switch base {
	case "cc1plus", "cc1":
		if strings.Contains(args, `"-E"`) {
			return "preprocess"
		}
		return "host compile"
	case "ld.bfd", "ld.gold":
		return "ld"
	}
	return base
}
