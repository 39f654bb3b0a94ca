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
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Credentials returns the headers of a call to a URI.
type Credentials func(ctx context.Context, uri string) (map[string][]string, error)

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
func credentialsOf(env func(string) string) (Credentials, error) {
	var all []Credentials
	var names []string
	add := func(name string, make func(value string) Credentials) {
		if value := env(name); value != "" {
			all, names = append(all, make(value)), append(names, name)
		}
	}
	add(envHelper, func(program string) Credentials { return (&helper{program: program}).headers })
	add(envToken, func(file string) Credentials {
		return fromFile(file, func(text string) string { return "Bearer " + text })
	})
	add(envPassword, func(file string) Credentials {
		return fromFile(file, func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) })
	})
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return nil, fmt.Errorf("%s are set: one of them can be meant", strings.Join(names, " and "))
}

// fromFile reads the file for each call, so that a renewed token is used immediately.
func fromFile(file string, spell func(string) string) Credentials {
	return func(context.Context, string) (map[string][]string, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		s := strings.TrimSpace(string(text))
		if s == "" || strings.ContainsAny(s, "\r\n") {
			return nil, fmt.Errorf("%s is not one line of text", file)
		}
		return map[string][]string{"Authorization": {spell(s)}}, nil
	}
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
