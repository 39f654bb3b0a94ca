package cache

import (
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct{ address, server, err string }{
		{address: "grpc://cache.example:9092", server: "cache.example:9092"},
		{address: "grpcs://Cache.Example/instance/of/mine", server: "cache.example:443"},
		{address: "grpc://cache.example", server: "cache.example:80"},
		{address: "http://[::1]:8080/team", server: "[::1]:8080"},
		{address: "https://cache.example/team", server: "cache.example:443"},
		{address: "", err: "no address of a remote cache"},
		{address: "cache.example", err: "no address of a remote cache: write grpcs://"},
		{address: "cache.example:8980", err: "no address"},
		{address: "localhost:8980", err: "no address"},
		{address: "//cache.example", err: "no address"},
		{address: "://cache.example", err: "missing protocol scheme"},
		{address: "ftp://cache.example", err: `"ftp://cache.example": a remote cache is reached by grpc, grpcs, http or https`},
		{address: "grpcs:///instance", err: "no address"},
		{address: "grpcs://:8980", err: "no address"},
		{address: "grpcs://host:0", err: "no address"},
		{address: "grpcs://host:65536", err: "no address"},
		{address: "grpcs://host:port", err: "invalid port"},
		{address: "https://host/?q", err: "no address"},
		{address: "https://host/#f", err: "no address"},
		{address: "https://me:secret@host/", err: "KBUILD_REMOTE_PASSWORD_FILE"},
		{address: "https://me:secret@host:port/", err: "the address of the remote cache"},
	} {
		u, err := ParseAddress(tt.address)
		switch {
		case err == nil && tt.err == "":
			if got := ServerOf(u); got != tt.server {
				t.Errorf("%q: server %s, want %s", tt.address, got, tt.server)
			}
		case err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: %v", tt.address, err)
		}
	}
}
