package plan_test

import (
	"os"
	"syscall"
	"testing"
)

// With umask 000 other users may write the manifests of tests, which are refused then.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}
