package reapi

import (
	"errors"
	"fmt"
	"sync"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// A server may claim that an output has any size, and send as much. The claim may be in the result
// of a remote command, or in a record that somebody stored there. The client checks content against
// its claim while receiving it. So it is enough to limit the claims before the first byte is
// requested. An action whose claims exceed a limit runs locally.

// The limits of all outputs of an action together. Code for GPUs ends in a host program, whose
// parts reach each other over 2 GiB at most.
const (
	mostBytes = 2 << 30
	mostFiles = 1 << 16
)

// bounded returns the total size of the outputs of an action. It returns an error if they exceed
// the limits.
func bounded(files []File) (total int64, err error) {
	if len(files) > mostFiles {
		return 0, fmt.Errorf("%w: an action with %d outputs; at most %d are possible", ErrWrong, len(files), mostFiles)
	}
	for _, f := range files {
		if f.Size < 0 || f.Size > mostBytes-total {
			return 0, fmt.Errorf("%w: %s has %d bytes, and outputs of an action may have %d", ErrWrong, f.Name, f.Size, mostBytes)
		}
		total += f.Size
	}
	return total, nil
}

// outputsOf returns the outputs of a command, in its order, and their total size. It ignores others
// that the server lists.
func outputsOf(cmd *remote.Command, r *re.ActionResult) (files []File, total int64, err error) {
	made := map[string]*re.OutputFile{}
	for _, f := range r.GetOutputFiles() {
		made[f.GetPath()] = f
	}
	for _, o := range cmd.Outputs {
		f := made[o.Path]
		if f == nil {
			return nil, 0, fmt.Errorf("%w: the command ended well and did not write %s", ErrWrong, o.Path)
		}
		b, err := blobOf(f.GetDigest())
		if err != nil {
			return nil, 0, err
		}
		files = append(files, File{o.Path, b, f.GetIsExecutable()})
	}
	total, err = bounded(files)
	return files, total, err
}

// errRoom wraps a refusal to fetch outputs that would fill the disk.
var errRoom = errors.New("there is too little space")

// room limits the disk space of outputs that are being received.
type room struct {
	mu    sync.Mutex
	taken int64
	free  func(dir string) (int64, error) // free bytes of the file system; nil means freeSpace
}

// take reserves bytes below dir until back is called. All reservations together may use half of the
// free space. Many concurrent commands could fill a disk that is large enough for each of them, and
// local actions need space too.
func (r *room) take(dir string, bytes int64) (back func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	free := r.free
	if free == nil {
		free = freeSpace
	}
	n, err := free(dir)
	if err != nil {
		return nil, err
	}
	if bytes > n/2-r.taken {
		return nil, fmt.Errorf("%w in %s for %d bytes: %d are free, and %d are taken", errRoom, dir, bytes, n, r.taken)
	}
	r.taken += bytes
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.taken -= bytes
	}, nil
}

func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}
