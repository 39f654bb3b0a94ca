package reapi

import (
	"context"
	"fmt"
	"io"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// silent is how long a server may send nothing about a running command. Buildbarn sends a message
// each minute. After that time the stream is opened again.
const silent = 90 * time.Second

// resumes is how often a broken stream is opened again, and backoff the delay before the first
// time.
const (
	resumes = 4
	backoff = 100 * time.Millisecond
)

func (s *grpcServer) alive(ctx context.Context) error {
	_, err := s.caps.GetCapabilities(ctx, &re.GetCapabilitiesRequest{InstanceName: s.instance})
	return err
}

// executes reports whether the server runs commands with SHA-256 digests.
func executes(c *re.ServerCapabilities) bool {
	e := c.GetExecutionCapabilities()
	known := len(e.GetDigestFunctions()) == 0 || e.GetDigestFunction() == re.DigestFunction_SHA256
	for _, f := range e.GetDigestFunctions() {
		known = known || f == re.DigestFunction_SHA256
	}
	return e.GetExecEnabled() && known
}

// execute implements executor. It resumes a broken stream. If the server no longer knows the
// operation, it submits the action again, which has the same result.
func (s *grpcServer) execute(ctx context.Context, action Blob, moved func()) (*re.ExecuteResponse, error) {
	operation := "" // "" submits the action
	for try := 0; ; try++ {
		res, err := s.follow(ctx, action, &operation, moved)
		switch code := status.Code(err); {
		case err == nil || ctx.Err() != nil || try == resumes:
			return res, err
		case operation != "" && (code == codes.NotFound || code == codes.InvalidArgument):
			operation = ""
		case !transient(code):
			return nil, err
		}
		select {
		case <-time.After(s.backoff << try):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// transient reports errors of a connection or of an overloaded server.
func transient(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// follow submits an action, or waits for the operation that it has become, and reads the stream
// until it is done. It sets operation.
func (s *grpcServer) follow(ctx context.Context, action Blob, operation *string, moved func()) (*re.ExecuteResponse, error) {
	ctx, alive, cancel := withIdle(ctx, silent)
	defer cancel()
	client := re.NewExecutionClient(s.conn)
	var stream grpc.ServerStreamingClient[longrunningpb.Operation]
	var err error
	if *operation == "" {
		request := &re.ExecuteRequest{InstanceName: s.instance, ActionDigest: digestOf(action)}
		stream, err = client.Execute(ctx, request)
	} else {
		stream, err = client.WaitExecution(ctx, &re.WaitExecutionRequest{Name: *operation})
	}
	if err != nil {
		return nil, err
	}
	for {
		op, err := stream.Recv()
		if err == io.EOF {
			return nil, status.Error(codes.Unavailable, "the server says nothing more of a command that has not ended")
		}
		if err != nil {
			return nil, err
		}
		alive()
		moved()
		*operation = op.GetName()
		if !op.GetDone() {
			continue
		}
		if e := op.GetError(); e != nil {
			return nil, status.ErrorProto(e)
		}
		res := &re.ExecuteResponse{}
		if err := op.GetResponse().UnmarshalTo(res); err != nil {
			return nil, fmt.Errorf("%w: the end of a command: %w", ErrWrong, err)
		}
		if res.GetResult() == nil && res.GetStatus().GetCode() == 0 {
			return nil, fmt.Errorf("%w: the end of a command without a result", ErrWrong)
		}
		return res, nil
	}
}

// account copies the resource usage that the worker reports. Use it only for estimates: a worker
// may report anything.
func account(out *remote.Outcome, m *re.ExecutedActionMetadata) {
	out.Worker = m.GetWorker()
	if begun, ended := m.GetExecutionStartTimestamp(), m.GetExecutionCompletedTimestamp(); begun != nil && ended != nil {
		out.Elapsed = max(0, ended.AsTime().Sub(begun.AsTime()))
	}
	for _, a := range m.GetAuxiliaryMetadata() {
		if a.GetTypeUrl() != "type.googleapis.com/buildbarn.resourceusage.POSIXResourceUsage" {
			continue
		}
		fields := wireFields(a.GetValue())
		out.CPU = max(0, duration(fields[1].bytes)+duration(fields[2].bytes))
		out.MaxRSS = max(0, int64(fields[3].number))
	}
	if out.CPU == 0 {
		out.CPU = out.Elapsed
	}
}

// wireField is the last value of a field in a message whose descriptor is not linked in.
type wireField struct {
	number uint64
	bytes  []byte
}

func wireFields(m []byte) map[protowire.Number]wireField {
	out := map[protowire.Number]wireField{}
	for len(m) > 0 {
		num, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return out
		}
		m = m[n:]
		var f wireField
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(m)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(m)
		default:
			n = protowire.ConsumeFieldValue(num, kind, m)
		}
		if n < 0 {
			return out
		}
		out[num], m = f, m[n:]
	}
	return out
}

// duration parses a google.protobuf.Duration.
func duration(m []byte) time.Duration {
	f := wireFields(m)
	return time.Duration(f[1].number)*time.Second + time.Duration(f[2].number)
}
