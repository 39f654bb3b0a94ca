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

// silent is for how long a server may say nothing of a command that runs. Buildbarn says something
// each minute; after that the command is asked for anew.
const silent = 90 * time.Second

// resumes is how often a stream that broke is taken up again, and backoff how long it is waited
// before the first time.
const (
	resumes = 4
	backoff = 100 * time.Millisecond
)

func (s *grpcServer) alive(ctx context.Context) error {
	_, err := s.caps.GetCapabilities(ctx, &re.GetCapabilitiesRequest{InstanceName: s.instance})
	return err
}

// executes reports whether a server runs commands with our digests.
func executes(c *re.ServerCapabilities) bool {
	e := c.GetExecutionCapabilities()
	known := len(e.GetDigestFunctions()) == 0 || e.GetDigestFunction() == re.DigestFunction_SHA256
	for _, f := range e.GetDigestFunctions() {
		known = known || f == re.DigestFunction_SHA256
	}
	return e.GetExecEnabled() && known
}

// execute implements executor. A stream that breaks is taken up where it was; where the server
// knows nothing of it any more the action is submitted again, which makes the same.
func (s *grpcServer) execute(ctx context.Context, action Blob, moved func()) (*re.ExecuteResponse, error) {
	client := re.NewExecutionClient(s.conn)
	submit := func(ctx context.Context) (grpc.ServerStreamingClient[longrunningpb.Operation], error) {
		return client.Execute(ctx, &re.ExecuteRequest{InstanceName: s.instance, ActionDigest: digestOf(action)})
	}
	open, name := submit, ""
	for try := 0; ; try++ {
		res, err := follow(ctx, open, &name, moved)
		switch code := status.Code(err); {
		case err == nil || ctx.Err() != nil || try == resumes:
			return res, err
		case name != "" && (code == codes.NotFound || code == codes.InvalidArgument):
			open, name = submit, ""
		case transient(code):
			if operation := name; operation != "" {
				open = func(ctx context.Context) (grpc.ServerStreamingClient[longrunningpb.Operation], error) {
					return client.WaitExecution(ctx, &re.WaitExecutionRequest{Name: operation})
				}
			}
		default:
			return nil, err
		}
		select {
		case <-time.After(s.backoff << try):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// transient are errors of a connection, or of a server that has too much to do.
func transient(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// follow reads a stream until the operation is done. name becomes that of the operation.
func follow(ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[longrunningpb.Operation], error), name *string, moved func()) (*re.ExecuteResponse, error) {
	ctx, alive, cancel := withIdle(ctx, silent)
	defer cancel()
	stream, err := open(ctx)
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
		*name = op.GetName()
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

// account takes what the worker says that a command has cost. It is for estimates: a worker may say
// anything.
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

// wireField is the last value of a field of a message whose description is not linked in.
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

// duration reads a google.protobuf.Duration.
func duration(m []byte) time.Duration {
	f := wireFields(m)
	return time.Duration(f[1].number)*time.Second + time.Duration(f[2].number)
}
