package tooltest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BuildGrid starts a Remote Execution API server with a cache and returns its address. The server
// stops with the test.
func BuildGrid(t testing.TB) (address string) {
	t.Helper()
	program, env := BuildGridProgram(t)
	host := FreePort(t)
	config := filepath.Join(t.TempDir(), "buildgrid.yml")
	write(t, config, fmt.Sprintf(`server: [!channel {address: %q, insecure-mode: true}]
storages: [!lru-storage &cas {size: 2GB}]
caches: [!lru-action-cache &ac {storage: *cas, max-cached-refs: 10000, cache-failed-actions: false, allow-updates: true}]
instances: [{name: "", services: [!cas {storage: *cas}, !bytestream {storage: *cas}, !action-cache {cache: *ac}]}]
thread-pool-size: 20
`, host))
	cmd := exec.Command(program, "server", "start", config)
	cmd.Env = env
	Serve(t, cmd, host)
	return "grpc://" + host
}

// BuildGridProgram returns BuildGrid's program, and the environment that it needs.
func BuildGridProgram(t testing.TB) (program string, env []string) {
	t.Helper()
	Broad(t)
	dir := os.Getenv("KBUILD_TEST_BUILDGRID") // pip installed it there
	program = filepath.Join(dir, "bin", "bgd")
	if _, err := os.Stat(program); err != nil || dir == "" {
		Missing(t, "BuildGrid, whose folder is KBUILD_TEST_BUILDGRID")
	}
	return program, append(os.Environ(), "PYTHONPATH="+dir)
}

// Nginx starts a web server that stores what is uploaded to /NAME/ac and /NAME/cas below the folder
// data, and returns its address. The server stops with the test.
func Nginx(t testing.TB) (address, data string) {
	t.Helper()
	Broad(t)
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not in every user's PATH
	}
	if _, err := os.Stat(program); err != nil {
		Missing(t, "nginx")
	}
	host, dir := FreePort(t), t.TempDir()
	data = filepath.Join(dir, "data")
	for _, d := range []string{data, filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // else its processes may not write here
	}
	config := filepath.Join(dir, "nginx.conf")
	write(t, config, fmt.Sprintf(`pid %[1]s/pid; error_log %[1]s/error.log; daemon off; %[2]s
events {}
http { access_log off; client_body_temp_path %[1]s/tmp; fastcgi_temp_path %[1]s/tmp; proxy_temp_path %[1]s/tmp; scgi_temp_path %[1]s/tmp;
  uwsgi_temp_path %[1]s/tmp; client_max_body_size 0; keepalive_requests 100000;
  server { listen %[3]s; root %[1]s/data;
    location ~ "^/[A-Za-z0-9._/-]+/(ac|cas)/[0-9a-f]{64}$" { dav_methods PUT; create_full_put_path on; }
    location / { return 403; } } }
`, dir, user, host))
	Serve(t, exec.Command(program, "-e", filepath.Join(dir, "error.log"), "-c", config), host)
	return "http://" + host, data
}

// Serve runs a server until the test ends, and waits until it accepts connections.
func Serve(t testing.TB, cmd *exec.Cmd, host string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		log.Close()
	})
	for {
		conn, err := net.DialTimeout("tcp", host, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			ended <- err
			t.Fatalf("%s: %v\n%s", cmd, err, text)
		case <-time.After(20 * time.Millisecond): // retry
		}
	}
}

// FreePort returns an unused local address.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
