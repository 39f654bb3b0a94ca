package reapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kbuild-dev/kbuild/cache"
)

// Open returns a client of the server at an address, see cache.ParseAddress. It sends nothing yet.
// The environment provides the credentials, see credentials.go.
func Open(address string, env func(string) string) (*Client, error) {
	who, err := credentialsOf(env)
	if err != nil {
		return nil, err
	}
	trust, err := tlsOf(env)
	if err != nil {
		return nil, err
	}
	u, err := cache.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	secure := u.Scheme == "grpcs" || u.Scheme == "https"
	if !secure && who != nil && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("%s sends credentials as they are, for all to read: use %ss://", address, u.Scheme)
	}
	switch {
	case u.Scheme == "grpc" || u.Scheme == "grpcs":
		transport := insecure.NewCredentials()
		if secure {
			transport = credentials.NewTLS(trust)
		}
		host := u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), map[bool]string{true: "443", false: "80"}[secure])
		}
		var auth credentials.PerRPCCredentials
		if who != nil {
			auth = perCall{who, secure}
		}
		s, err := dial(host, strings.Trim(u.Path, "/"), transport, auth)
		if err != nil {
			return nil, err
		}
		return &Client{s: s}, nil
	default:
		var header func(context.Context, *http.Request) error
		if who != nil {
			header = func(ctx context.Context, req *http.Request) error {
				h, err := who(ctx, req.URL.String())
				for name, values := range h {
					req.Header[http.CanonicalHeaderKey(name)] = values
				}
				return err
			}
		}
		return &Client{s: newHTTP(address, &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: trust}, header)}, nil
	}
}

// perCall implements credentials.PerRPCCredentials.
type perCall struct {
	of     Credentials
	secure bool
}

func (p perCall) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	h, err := p.of(ctx, strings.Join(uri, ""))
	out := map[string]string{}
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return out, err
}

func (p perCall) RequireTransportSecurity() bool { return p.secure }

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
