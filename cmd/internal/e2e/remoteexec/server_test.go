package remoteexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// server is a Remote Execution API server that runs commands, once it has workers: BuildGrid, whose
// queue is in PostgreSQL.
type server struct {
	Address  string // of an instance of the server, for kbuild
	Host     string // HOST:PORT of the server
	Instance string // its name
	// Cache is the address of another instance, which runs no commands and has an action cache of
	// its own.
	Cache  string
	Kept   string // folder for blobs that workers of this server have downloaded
	server *os.Process
}

// startServers starts a server with n instances. It stops with the test. Each instance has its own
// queue and workers: a dead worker stays known to its instance for ten minutes, and is still
// assigned commands. All instances share one cache without action results, so that each command
// runs.
func startServers(t testing.TB, n int) (instances []*server) {
	t.Helper()
	tooltest.Broad(t)
	tooltest.Need(t, "strace") // for the workers
	program, env := tooltest.BuildGridProgram(t)
	sql := postgres(t)
	host := tooltest.FreePort(t)
	config := filepath.Join(t.TempDir(), "buildgrid.yml")
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "- {name: farm%d, services: [*content, *stream, *results, !execution {scheduler: *queue}]}\n", i)
	}
	// Instances share their services: the server takes half a second to read those of one. It polls
	// for work ten times a second, which takes 3 % of a processor; 50 times would take 10 %.
	text := fmt.Sprintf(`server: [!channel {address: %q, insecure-mode: true}]
connections: [!sql-connection &sql {connection-string: %q, pool-size: 10, max-overflow: 80}]
storages: [!lru-storage &cas {size: 2GB}]
caches:
- !lru-action-cache &kept {storage: *cas, max-cached-refs: 10000, cache-failed-actions: false, allow-updates: true}
- !lru-action-cache &ac {storage: *cas, max-cached-refs: 10000, cache-failed-actions: false, allow-updates: true}
schedulers: [!sql-scheduler &queue {sql: *sql, storage: *cas, poll-interval: 0.1, assigners: [!priority-age-assigner {interval: 0.1, jitter-factor: 0}]}]
instances:
- {name: cache, services: [!cas &content {storage: *cas}, !bytestream &stream {storage: *cas}, !action-cache {cache: *kept}]}
- {name: none, services: [*content, *stream, !action-cache &results {cache: *ac}]}
%sthread-pool-size: 100
`, host, sql, &list)
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	migrate := exec.Command(program, "migrate", "apply", sql)
	migrate.Env = env
	if out, err := migrate.CombinedOutput(); err != nil && strings.Contains(string(out), "No module named 'psycopg2'") {
		tooltest.Missing(t, "psycopg2 beside BuildGrid, which .ci/toolkit.sh test-all installs,")
	} else if err != nil {
		t.Fatalf("%s: %v\n%s", migrate, err, out)
	}
	cmd := exec.Command(program, "server", "start", config)
	cmd.Env = env
	tooltest.Serve(t, cmd, host)
	kept := t.TempDir()
	for i := range n {
		name := fmt.Sprint("farm", i)
		instances = append(instances, &server{"grpc://" + host + "/" + name, host, name, "grpc://" + host + "/cache", kept, cmd.Process})
	}
	return instances
}

// Kill ends the server immediately. Its address then refuses connections.
func (f *server) Kill() { f.server.Kill() }

// Freeze stops the server until it thaws or the test ends. The stopped server accepts connections
// but answers nothing.
func (f *server) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	if err := f.server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = func() { f.server.Signal(syscall.SIGCONT) }
	t.Cleanup(thaw)
	return thaw
}

// postgres starts a database server with an empty database, which listens only on a socket, and
// returns its address. The server stops with the test.
func postgres(t testing.TB) (connection string) {
	t.Helper()
	// Not t.TempDir: a socket's name has at most 107 bytes.
	dir, err := os.MkdirTemp("", "kbuild-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	who := serverUser(t, dir)
	run := func(program string, args ...string) {
		t.Helper()
		cmd := exec.Command(postgresProgram(t, program), args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, append(os.Environ(), "LC_ALL=C"), who
		// Not a pipe, which the server would keep open.
		out, err := os.CreateTemp(t.TempDir(), program)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			printed, _ := os.ReadFile(out.Name())
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("%s: %v\n%s%s", cmd, err, printed, log)
		}
	}
	data := filepath.Join(dir, "data")
	run("initdb", "--pgdata", data, "--username", "bgd", "--auth", "trust", "--no-sync", "--no-locale", "--encoding", "UTF8")
	// The data does not outlive the test: no write needs to reach the disk.
	options := "-c listen_addresses= -c max_connections=150 -c fsync=off -c synchronous_commit=off -c full_page_writes=off -k '" + dir + "'"
	t.Cleanup(func() { run("pg_ctl", "--pgdata", data, "--mode", "immediate", "--wait", "stop") })
	run("pg_ctl", "--pgdata", data, "--log", filepath.Join(dir, "log"), "--options", options, "--wait", "start")
	return "postgresql+psycopg2://bgd@/postgres?host=" + dir
}

// serverUser returns the user that runs a database server in dir, if not the test's user:
// PostgreSQL refuses root. Other users cannot start programs if the root of the file system is
// closed to them, as in a chroot to a folder of mktemp. The test is then skipped.
func serverUser(t testing.TB, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		tooltest.Missing(t, "the user postgres, for PostgreSQL refuses root,")
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	for _, err := range []error{err1, err2, os.Chown(dir, uid, gid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	who := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	try := exec.Command("/bin/true")
	try.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if err := try.Run(); err != nil {
		t.Skipf("PostgreSQL refuses root, and the user postgres can start nothing here: %v", err)
	}
	return try.SysProcAttr
}

// postgresProgram finds a program of PostgreSQL. Debian installs the server's programs outside of
// PATH.
func postgresProgram(t testing.TB, name string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", name))
	if len(found) > 0 {
		return slices.Max(found)
	}
	program, err := exec.LookPath(name)
	if err != nil {
		tooltest.Missing(t, "PostgreSQL ("+name+")")
	}
	return program
}
