package reapi

import (
	"context"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// requestMetadata is the header that groups the calls of one build: servers use it for fair
// scheduling and for logs.
const requestMetadata = "build.bazel.remote.execution.v2.requestmetadata-bin"

// ofOneBuild adds the same invocation ID to all calls of a connection.
func ofOneBuild() []grpc.DialOption {
	value := string(marshal(&re.RequestMetadata{ToolDetails: &re.ToolDetails{ToolName: "kbuild"}, ToolInvocationId: uuid()}))
	named := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, requestMetadata, value)
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, c *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return call(named(ctx), method, req, reply, c, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(named(ctx), d, c, method, opts...)
		}),
	}
}
