package reapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kbuild-dev/kbuild/cache"
)

// Open returns a client of the server at an address, see cache.ParseAddress. It sends nothing yet.
// The environment provides the credentials.
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
	loopback := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if !secure && who != nil && !loopback {
		return nil, fmt.Errorf("%s sends credentials as they are, for all to read: use %ss://", address, u.Scheme)
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		return &Client{s: newHTTP(address, &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: trust}, who)}, nil
	}
	transport := insecure.NewCredentials()
	if secure {
		transport = credentials.NewTLS(trust)
	}
	build := marshal(&re.RequestMetadata{ToolDetails: &re.ToolDetails{ToolName: "kbuild"}, ToolInvocationId: uuid()})
	s, err := dial(cache.ServerOf(u), strings.Trim(u.Path, "/"), transport, perCall{who, secure, string(build)})
	if err != nil {
		return nil, err
	}
	return &Client{s: s}, nil
}

// perCall implements credentials.PerRPCCredentials: the headers of each call.
type perCall struct {
	who    authority // or nil
	secure bool
	// groups the calls of one build: servers use it for fair scheduling and for logs
	build string
}

const requestMetadata = "build.bazel.remote.execution.v2.requestmetadata-bin"

func (p perCall) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	out := map[string]string{requestMetadata: p.build}
	if p.who == nil {
		return out, nil
	}
	h, err := p.who.headers(ctx, strings.Join(uri, ""))
	for name, values := range h {
		out[strings.ToLower(name)] = strings.Join(values, ",")
	}
	return out, err
}

func (p perCall) RequireTransportSecurity() bool { return p.secure }

// authority identifies the user to a server.
type authority interface {
	// headers returns the headers of a call to a URI.
	headers(ctx context.Context, uri string) (map[string][]string, error)
}

// Environment variables with credentials. A manifest cannot set them: a project must not be able to
// send a user's credentials to a server of its choice.
const (
	// A program of Bazel's credential helper protocol.
	envHelper   = "KBUILD_REMOTE_CREDENTIAL_HELPER"
	envToken    = "KBUILD_REMOTE_TOKEN_FILE"    // a file with a bearer token
	envPassword = "KBUILD_REMOTE_PASSWORD_FILE" // a file with USER:PASSWORD
	// A PEM file of CA certificates to trust in addition to the system's.
	envCA   = "KBUILD_REMOTE_CA"
	envCert = "KBUILD_REMOTE_CERT" // a file with the client's certificate
	envKey  = "KBUILD_REMOTE_KEY"  // a file with its key
)

// credentialsOf returns the credentials that the environment sets, or nil.
func credentialsOf(env func(string) string) (who authority, err error) {
	var names []string
	for _, name := range []string{envHelper, envToken, envPassword} {
		value := env(name)
		if value == "" {
			continue
		}
		if names = append(names, name); name == envHelper {
			who = &helper{program: value}
		} else {
			who = secretFile{value, name == envPassword}
		}
	}
	if len(names) > 1 {
		err = fmt.Errorf("%s are set: one of them can be meant", strings.Join(names, " and "))
	}
	return who, err
}

// secretFile is a file with a bearer token, or with USER:PASSWORD.
type secretFile struct {
	name     string
	password bool
}

// headers reads the file for each call, so that a renewed token is used immediately.
func (f secretFile) headers(context.Context, string) (map[string][]string, error) {
	text, err := os.ReadFile(f.name)
	if err != nil {
		return nil, err
	}
	s := strings.TrimSpace(string(text))
	switch {
	case s == "" || strings.ContainsAny(s, "\r\n"):
		return nil, fmt.Errorf("%s is not one line of text", f.name)
	case f.password:
		s = "Basic " + base64.StdEncoding.EncodeToString([]byte(s))
	default:
		s = "Bearer " + s
	}
	return map[string][]string{"Authorization": {s}}, nil
}

// helper runs a credential helper, see github.com/EngFlow/credential-helper-spec: `PROGRAM get`
// with {"uri": ...} on its standard input.
type helper struct {
	program string
	mu      sync.Mutex
	known   map[string]answered // by scheme and host
}

type answered struct {
	headers map[string][]string
	until   time.Time
}

// Limits of a credential helper, equal to Bazel's.
const (
	helperTime = 10 * time.Second
	helperKeep = 30 * time.Minute // if the helper sets no expiry
)

func (h *helper) headers(ctx context.Context, uri string) (map[string][]string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	host := u.Scheme + "://" + u.Host
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, ok := h.known[host]; ok && time.Now().Before(a.until) {
		return a.headers, nil
	}
	a, err := h.ask(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("the credential helper %s: %w", h.program, err)
	}
	if h.known == nil {
		h.known = map[string]answered{}
	}
	h.known[host] = a
	return a.headers, nil
}

func (h *helper) ask(ctx context.Context, uri string) (a answered, err error) {
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, "get")
	question, _ := json.Marshal(map[string]string{"uri": uri}) // encoding strings cannot fail
	var out, printed bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(question), &out, &printed
	if err := cmd.Run(); err != nil {
		return a, errors.Join(err, errors.New(strings.TrimSpace(printed.String())))
	}
	var got struct {
		Headers map[string][]string `json:"headers"`
		Expires time.Time           `json:"expires"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return a, fmt.Errorf("its answer is not of its protocol: %w", err)
	}
	if got.Expires.IsZero() {
		got.Expires = time.Now().Add(helperKeep)
	}
	return answered{got.Headers, got.Expires}, nil
}

// tlsOf returns the configuration for checking the server and identifying the client.
func tlsOf(env func(string) string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := env(envCA); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", envCA, err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s holds no certificate (PEM)", envCA, file)
		}
		c.RootCAs = pool
	}
	cert, key := env(envCert), env(envKey)
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%s and %s belong together, and one of them is not set", envCert, envKey)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", envCert, envKey, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
