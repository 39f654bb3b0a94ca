package remoteexec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/kbuild-dev/kbuild/actions/tooltest"
)

// overheard is a test whose errors are only noted.
type overheard struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (o *overheard) Errorf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errors = append(o.errors, fmt.Sprintf(format, args...))
}

// execute runs a command with one input, the file sub/in, and gives its result.
func execute(t *testing.T, farm *server, argv []string, outputs ...string) *re.ActionResult {
	t.Helper()
	conn, err := grpc.NewClient(farm.Host, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := context.Background()
	s := &store{conn: conn, instance: farm.Instance}
	put := func(m proto.Message) *re.Digest {
		t.Helper()
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.put(ctx, text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	in, err := s.put(ctx, []byte("what goes in\n"))
	if err != nil {
		t.Fatal(err)
	}
	sub := put(&re.Directory{Files: []*re.FileNode{{Name: "in", Digest: in}}})
	action := put(&re.Action{
		CommandDigest: put(&re.Command{Arguments: argv, OutputPaths: outputs,
			EnvironmentVariables: []*re.Command_EnvironmentVariable{{Name: "PATH", Value: "/usr/bin:/bin"}}}),
		InputRootDigest: put(&re.Directory{Directories: []*re.DirectoryNode{{Name: "sub", Digest: sub}}}),
	})
	stream, err := re.NewExecutionClient(conn).Execute(ctx, &re.ExecuteRequest{InstanceName: farm.Instance, ActionDigest: action})
	if err != nil {
		t.Fatal(err)
	}
	for {
		op, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if !op.GetDone() {
			continue
		}
		var res re.ExecuteResponse
		if err := op.GetResponse().UnmarshalTo(&res); err != nil {
			t.Fatal(err)
		}
		return res.GetResult()
	}
}

// The worker runs a command in its input tree, and tells of each file that it takes from elsewhere.
func TestWorker(t *testing.T) {
	tooltest.Need(t, "strace")
	farm := startServers(t, 1)[0]
	o := &overheard{TB: t}
	w := startTraced(o, farm, 1, nil)
	script := `cat sub/in >out/made; env; echo no good >&2; exit 3`
	r := execute(t, farm, []string{"/bin/sh", "-c", script}, "out/made", "out/not/made")
	if env := string(r.GetStdoutRaw()); r.GetExitCode() != 3 || !strings.Contains(env, "PATH=/usr/bin:/bin\n") || strings.Contains(env, "HOME=") || r.GetStderrDigest().GetSizeBytes() != 8 {
		t.Errorf("exit %d, environment and output %q, %v", r.GetExitCode(), env, r.GetStderrDigest())
	}
	if files := r.GetOutputFiles(); len(files) != 1 || files[0].GetPath() != "out/made" || files[0].GetDigest().GetSizeBytes() != 13 {
		t.Errorf("outputs %v", files)
	}
	execute(t, farm, []string{"/bin/cat", "/etc/hostname", "/etc/not there"})
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, want := range []string{"it ran /bin/sh,", "it ran /usr/bin/env,", "it read /etc/hostname,", "it looked for /etc/not there,"} {
		if !slices.ContainsFunc(o.errors, func(e string) bool { return strings.HasPrefix(e, want) }) {
			t.Errorf("nobody says %q but\n%s", want, strings.Join(o.errors, "\n"))
		}
	}
	if slices.ContainsFunc(o.errors, func(e string) bool { return strings.Contains(e, "/sub/in, ") || strings.Contains(e, "/out/made, ") }) {
		t.Errorf("what is among its inputs and outputs is reported:\n%s", strings.Join(o.errors, "\n"))
	}
	if w.Ran() != 2 {
		t.Errorf("%d commands ran", w.Ran())
	}
}
