package run

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Everything that was started with a TMPDIR of the build tree ends, however its path is spelled,
// and nothing else.
func TestEndOrphans(t *testing.T) {
	base := t.TempDir()
	dir, link, other := filepath.Join(base, "tree/tmp"), filepath.Join(base, "link"), filepath.Join(base, "tmp")
	for _, d := range []string{filepath.Join(dir, "a.o"), filepath.Join(other, "a.o")} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tree", link); err != nil {
		t.Fatal(err)
	}
	start := func(tmp string) (*exec.Cmd, string) {
		cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		child, _ := bufio.NewReader(out).ReadString('\n')
		return cmd, strings.TrimSpace(child)
	}
	runs := func(pid string) bool { // one that has ended has no program any more, also if nobody has waited for it
		_, err := os.Readlink("/proc/" + pid + "/exe")
		return err == nil
	}
	for _, c := range []struct {
		tmp  string
		ends bool
	}{
		{dir, true}, // of an action that writes one file
		{dir + "/a.o", true},
		{dir + "/a.o/aloud", true},
		{filepath.Join(link, "tmp/a.o"), true},
		{other + "/a.o", false},
		{dir + "2/a.o", false},
		{"", false},
	} {
		cmd, child := start(c.tmp)
		if err := EndOrphans(dir); err != nil {
			t.Fatal(err)
		}
		if runs(child) == c.ends || runs(strconv.Itoa(cmd.Process.Pid)) == c.ends {
			t.Errorf("TMPDIR=%s: it runs: %v, and its child: %v", c.tmp, runs(strconv.Itoa(cmd.Process.Pid)), runs(child))
		}
	}
}
