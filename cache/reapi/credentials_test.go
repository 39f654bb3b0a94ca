package reapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeFile(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// What a server hears of who asks.
func TestCredentials(t *testing.T) {
	var heard string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	token := writeFile(t, "token", "secret\n", 0o600)
	asked := filepath.Join(t.TempDir(), "asked")
	helper := writeFile(t, "helper", "#!/bin/sh\ncat >>"+asked+"\necho \"$1\" >>"+asked+"\n"+
		`echo '{"headers": {"Authorization": ["Bearer of the helper"]}, "expires": "2999-01-01T00:00:00Z", "more": 1}'`+"\n", 0o700)
	old := writeFile(t, "old", "#!/bin/sh\ncat >>"+asked+".old\n"+`echo '{"headers": {"Authorization": ["Bearer of yesterday"]}, "expires": "2001-01-01T00:00:00Z"}'`+"\n", 0o700)
	for _, tt := range []struct {
		env  func(string) string
		want string
	}{
		{env(), ""},
		{env(envToken, token), "Bearer secret"},
		{env(envPassword, writeFile(t, "password", "me:pass", 0o600)), "Basic bWU6cGFzcw=="},
		{env(envHelper, helper), "Bearer of the helper"},
		{env(envHelper, old), "Bearer of yesterday"},
	} {
		c, err := Open(server.URL, tt.env)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.Connect(t.Context()); err != nil || heard != tt.want {
				t.Errorf("%q, want %q, %v", heard, tt.want, err)
			}
		}
		c.Close()
	}
	if text, _ := os.ReadFile(asked); strings.Count(string(text), "get") != 1 || !strings.Contains(string(text), `{"uri":"`+server.URL) {
		t.Errorf("the helper was asked %q", text)
	}
	if text, _ := os.ReadFile(asked + ".old"); strings.Count(string(text), "uri") != 2 {
		t.Errorf("the helper whose answer was old was asked %q", text)
	}
	os.WriteFile(token, []byte("renewed"), 0o600)
	c, _ := Open(server.URL, env(envToken, token))
	c.Connect(t.Context())
	if heard != "Bearer renewed" {
		t.Errorf("a token that was renewed is sent as %q", heard)
	}
}

func TestBadCredentials(t *testing.T) {
	for _, tt := range []struct {
		env  func(string) string
		want string // what the error of Open, or of the first call, says
	}{
		{env(envToken, "/nonexistent"), "no such file"},
		{env(envToken, writeFile(t, "token", " \n", 0o600)), "is not one line of text"},
		{env(envToken, "a", envHelper, "b"), "KBUILD_REMOTE_CREDENTIAL_HELPER and KBUILD_REMOTE_TOKEN_FILE are set: one of them can be meant"},
		{env(envHelper, writeFile(t, "fails", "#!/bin/sh\necho no ticket >&2; exit 1\n", 0o700)), "no ticket"},
		{env(envHelper, writeFile(t, "talks", "#!/bin/sh\necho hello\n", 0o700)), "not of its protocol"},
		{env(envCA, writeFile(t, "ca", "no PEM", 0o600)), "holds no certificate"},
		{env(envCert, "cert.pem"), "KBUILD_REMOTE_CERT and KBUILD_REMOTE_KEY belong together"},
		{env(envCert, "/nonexistent", envKey, "/nonexistent"), "no such file"},
	} {
		c, err := Open("http://127.0.0.1:1", tt.env)
		if err == nil {
			_, err = c.Connect(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// certificate makes a certificate, signed by itself, and its key: PEM, in files.
func certificate(t *testing.T) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC),
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "cert.pem", string(certPEM), 0o600), writeFile(t, "key.pem", string(keyPEM), 0o600), pair
}

// A server that only believes one client, and that only a client believes who knows its
// certificate.
func TestTLS(t *testing.T) {
	ca, _, pair := certificate(t)
	cert, key, own := certificate(t)
	leaf, _ := x509.ParseCertificate(own.Certificate[0])
	known := x509.NewCertPool()
	known.AddCert(leaf)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known}
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	address := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for name, tt := range map[string]struct {
		env func(string) string
		ok  bool
	}{
		"both": {env(envCA, ca, envCert, cert, envKey, key), true}, "no CA": {env(envCert, cert, envKey, key), false}, "no certificate": {env(envCA, ca), false},
	} {
		for _, scheme := range []string{"https", "grpcs"} {
			c, err := Open(strings.Replace(address, "https", scheme, 1), tt.env)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Connect(t.Context())
			var answered StatusError // what gRPC makes of a server that speaks HTTP alone, once TLS is through
			ok := err == nil || errors.As(err, &answered) || strings.Contains(err.Error(), "404")
			if ok != tt.ok {
				t.Errorf("%s, %s: %v", scheme, name, err)
			}
			c.Close()
		}
	}
}
