package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A server is sccache's server. It runs the compilers, so its time and processes count. The methods
// of a nil server do nothing; the other tools have one.
type server struct {
	cmd   *exec.Cmd
	trace string // strace's log; "" if not traced
}

// startServer starts sccache's server as a child process and waits until it accepts connections.
func startServer(l *lane) (*server, error) {
	argv := []string{"sccache"}
	s := &server{}
	if l.tracing {
		s.trace = filepath.Join(l.dir, "server-trace")
		argv = traced(s.trace, argv)
	}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Env = append(l.env, "SCCACHE_START_SERVER=1", "SCCACHE_NO_DAEMON=1")
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting sccache's server: %w", err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", filepath.Join(l.dir, "s")); err == nil {
			c.Close()
			return s, nil
		}
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	return nil, fmt.Errorf("sccache's server does not answer")
}

func (s *server) stop(env []string) {
	if s == nil {
		return
	}
	stop := exec.Command("sccache", "--stop-server")
	stop.Env = env
	if stop.Run() != nil {
		s.cmd.Process.Kill()
	}
	s.cmd.Wait()
}

// cpu returns the CPU time of the server and the children that it has waited for.
func (s *server) cpu() time.Duration {
	if s == nil {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return cpuOfStat(string(stat))
}

// cpuOfStat adds utime, stime, cutime and cstime of /proc/PID/stat, in hundredths of a second. The
// second field is a name in parentheses that may contain anything.
func cpuOfStat(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0
	}
	ticks := 0
	for _, f := range fields[11:15] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func (s *server) traceSize() int64 {
	if s == nil || s.trace == "" {
		return 0
	}
	info, err := os.Stat(s.trace)
	if err != nil {
		return 0
	}
	return info.Size()
}
