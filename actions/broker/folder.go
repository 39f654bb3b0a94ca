package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir returns the folder that all kbuild processes of a user share. It is in XDG_RUNTIME_DIR if
// that belongs to the user, else in TMPDIR. After su or sudo XDG_RUNTIME_DIR may be another user's.
func Dir(env func(string) string) string {
	if dir := env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && owner(info) == os.Geteuid() {
			return filepath.Join(dir, "kbuild-broker")
		}
	}
	tmp := env("TMPDIR")
	if tmp == "" {
		tmp = "/tmp"
	}
	return filepath.Join(tmp, "kbuild-broker-"+strconv.Itoa(os.Geteuid()))
}

func owner(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// private creates the folder. It rejects a folder of another user, and one that several machines
// may share.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder; remove it", dir)
	case owner(info) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; set XDG_RUNTIME_DIR or TMPDIR to a folder of your own", dir)
	case info.Mode().Perm() != 0o700:
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil && network[uint32(fs.Type)] {
		return fmt.Errorf("%s is on a network file system, which several machines may share; set TMPDIR to a local folder", dir)
	}
	return nil
}

// network lists the file systems whose locks, if they work, are shared by all machines that mount
// them.
var network = map[uint32]bool{
	unix.NFS_SUPER_MAGIC:  true,
	unix.SMB_SUPER_MAGIC:  true,
	unix.SMB2_SUPER_MAGIC: true,
	unix.CIFS_SUPER_MAGIC: true,
	unix.AFS_SUPER_MAGIC:  true,
	unix.AFS_FS_MAGIC:     true,
	unix.CEPH_SUPER_MAGIC: true,
	unix.CODA_SUPER_MAGIC: true,
	unix.V9FS_MAGIC:       true,
	0x0bd00bd0:            true, // Lustre
	0x47504653:            true, // GPFS
	0x19830326:            true, // BeeGFS
}
