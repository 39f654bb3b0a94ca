package strace

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// inHex returns a log as strace -xx writes it.
func inHex(log string) string {
	return regexp.MustCompile(`"[^"\n]*"|(AT_FDCWD|\d)<[/a-z][^>\n]*>`).ReplaceAllStringFunc(log, func(s string) string {
		before, text, _ := strings.Cut(s, string(s[strings.IndexAny(s, `"<`)]))
		hex := ""
		for _, b := range []byte(text[:len(text)-1]) {
			hex += fmt.Sprintf(`\x%02x`, b)
		}
		return s[:len(before)+1] + hex + s[len(s)-1:]
	})
}

// Lines as strace 6.1 writes them, of gcc and nvcc, and of programs that do what those do not.
func TestParse(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"an open that ends well, and one that does not", `7  execve("/usr/bin/g++", ["g++", "-c", "a.c"], 0x7ffc29365a10 /* 35 vars */) = 0
7  openat(AT_FDCWD</w>, "/etc/x", O_RDONLY|O_CLOEXEC) = 3</etc/x>
7  openat(AT_FDCWD</w>, "inc/a.h", O_RDONLY|O_NOCTTY) = -1 ENOENT (No such file or directory)
7  access("b/c", R_OK)   = -1 ENOTDIR (Not a directory)
7  newfstatat(AT_FDCWD</w>, "d", {st_mode=S_IFREG|0644, st_size=41903, ...}, 0) = 0
7  newfstatat(3</etc/x>, "", {st_mode=S_IFREG|0644, st_size=41903, ...}, AT_EMPTY_PATH) = 0
7  exit_group(0)                           = ?`, `ran /usr/bin/g++ by g++
read /etc/x by g++
looked /w/inc/a.h by g++
looked /w/b/c by g++`},
		{"what it writes", `7  openat(AT_FDCWD</w>, "o", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</w/o>
7  openat(AT_FDCWD</w>, "/tmp/cc.s", O_RDWR|O_CREAT|O_EXCL, 0600) = 3</tmp/cc.s>
7  openat(AT_FDCWD</w>, "log", O_RDWR) = 3</w/log>
7  rename("o", "p") = 0
7  unlink("q") = -1 ENOENT (No such file or directory)
7  mkdir("r", 0777) = 0
7  symlink("gone", "s") = 0`, `wrote /w/o by 
wrote /tmp/cc.s by 
read /w/log by 
wrote /w/log by 
wrote /w/o by 
wrote /w/p by 
wrote /w/r by 
wrote /w/s by `},
		{"links and folders", `7  readlink("/usr/bin/g++", "g++-12", 1023) = 6
7  readlink("/usr", 0x7ffdd3656a90, 1023) = -1 EINVAL (Invalid argument)
7  openat(AT_FDCWD</w>, "/opt", O_RDONLY|O_NONBLOCK|O_CLOEXEC|O_DIRECTORY) = 3</opt>
7  openat(3</opt>, "x", O_RDONLY) = 4</opt/x>
7  openat(AT_FDCWD</w>, "/opt", O_RDONLY|O_PATH) = 3</opt>`, `link /usr/bin/g++ by 
listed /opt by 
read /opt/x by `},
		{"folders of processes", `7  chdir("sub") = 0
7  access("a", R_OK) = -1 ENOENT (No such file or directory)
7  vfork( <unfinished ...>
8  access("b", R_OK) = -1 ENOENT (No such file or directory)
8  chdir("/deep") = 0
8  execve("./tool", ["./tool"], 0x1 /* 3 vars */ <unfinished ...>
7  <... vfork resumed>)             = 8
7  access("c", R_OK) = -1 ENOENT (No such file or directory)
8  <... execve resumed>)             = 0
8  access("d", R_OK) = -1 ENOENT (No such file or directory)
7  clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, tls=0x7f) = 9
9  chdir("..") = 0
7  access("e", R_OK) = -1 ENOENT (No such file or directory)
7  fchdir(5</five>) = 0
9  access("f", R_OK) = -1 ENOENT (No such file or directory)`, `looked /w/sub/a by 
looked /w/sub/b by 
looked /w/sub/c by 
ran /deep/./tool by tool
looked /deep/d by tool
looked /w/sub/../e by 
looked /five/f by `},
		{"names with special characters", `7  access("/tmp/Üb ( x\y ,", R_OK) = -1 ENOENT (No such file or directory)
7  openat(3</a, (c>, "x = )", O_RDONLY) = 4</a, (c/x = )>`, `looked /tmp/Üb ( x\y , by 
read /a, (c/x = ) by `},
		{"programs that are not there", `7  execve("/a/as", ["as"], 0x1 /* 3 vars */) = -1 ENOENT (No such file or directory)
7  execve("/b/as", ["as"], 0x1 /* 3 vars */) = -1 ENOEXEC (Exec format error)
7  execve("/c/as", ["as"], 0x1 /* 3 vars */) = 0`, `looked /a/as by 
ran /b/as by 
ran /c/as by as`},
		{"signals", `7  --- SIGCHLD {si_signo=SIGCHLD} ---
7  +++ exited with 0 +++`, ``},
	} {
		all, err := Parse(strings.NewReader(inHex(c.log)+"\n"), "/w")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, a := range all {
			got = append(got, fmt.Sprintf("%s %s by %s", map[Use]string{Read: "read", Ran: "ran", Listed: "listed", Link: "link", Looked: "looked", Wrote: "wrote"}[a.Use], a.Path, a.Program))
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text, c.want)
		}
	}
}

// What cannot be read is an error: nothing may be left out unseen.
func TestParseNonsense(t *testing.T) {
	for _, log := range []string{
		"7  openat(AT_FDCWD</w>, \"a",
		"7  openat(AT_FDCWD</w, \"a\", O_RDONLY) = 3",
		"7  nonsense",
		"7  <... read resumed>) = 3",
		"7  access(\"a\", R_OK)",
		"7  access(\"a\"..., R_OK) = 0",
		"7  access(\"a\", R_OK) = 0\n8  access(\"b\", R_OK) = 0",
		"7  chroot(\"/x\") = 0",
	} {
		if all, err := Parse(strings.NewReader(inHex(log)), "/w"); err == nil {
			t.Errorf("%q: %v", log, all)
		}
	}
}
