package cache

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ParseAddress parses the address of a remote cache. It does not connect:
//
//	grpc://HOST:PORT/INSTANCE     the Remote Execution API without TLS
//	grpcs://HOST:PORT/INSTANCE    with TLS
//	http://HOST:PORT/PATH, https://HOST/PATH
//
// The port, the instance name and the path are optional.
func ParseAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // without the address, which may hold a password
		}
		return nil, fmt.Errorf("the address of the remote cache: %w", err)
	}
	if !strings.Contains(s, "://") {
		return nil, fmt.Errorf("%q is no address of a remote cache: write grpcs://HOST:PORT/INSTANCE or https://HOST/PATH", s)
	}
	switch u.Scheme {
	case "grpc", "grpcs", "http", "https":
	default:
		return nil, fmt.Errorf("%q: a remote cache is reached by grpc, grpcs, http or https", u.Redacted())
	}
	port, err := strconv.Atoi(u.Port())
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("%q names a user, and an address is for all to read: say who asks by KBUILD_REMOTE_PASSWORD_FILE", u.Redacted())
	case u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Port() != "" && (err != nil || port < 1 || port > 65535):
		return nil, fmt.Errorf("%q is no address of a remote cache: write grpcs://HOST:PORT/INSTANCE or https://HOST/PATH", s)
	}
	return u, nil
}

// ServerOf returns HOST:PORT of an address in lower case. Without a port it uses the default port
// of the scheme.
func ServerOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[strings.HasSuffix(u.Scheme, "s")]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
