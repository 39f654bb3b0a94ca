package reapi

import (
	"errors"
	"fmt"
	"sync"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// A server may claim that an output has any size, and send as much: the result of a command that it
// ran, and a record that somebody has stored there. Content is checked against its claim while it
// comes, so it is enough to bound the claims before the first byte is requested. An action whose
// claims exceed a bound runs here.

// The bounds of all outputs of an action. Code for GPUs ends in a host program, whose parts reach
// each other over 2 GiB at most.
const (
	mostBytes = 2 << 30
	mostFiles = 1 << 16
)

// bounded returns the bytes of the outputs of an action. It is an error if they are too many.
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

// outputsOf returns the outputs that a command should have made, in its order, and their bytes.
// Others that the server lists are ignored.
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

// errRoom wraps a refusal to fetch what would fill the disk.
var errRoom = errors.New("there is too little space")

// room is the disk space that outputs on their way may take.
type room struct {
	mu    sync.Mutex
	taken int64
	free  func(dir string) (int64, error) // bytes of the file system; nil asks it
}

// take sets bytes aside below dir, until back is called. All that is on its way may have half of
// what is free: many commands at once would fill a disk that is large enough for each of them, and
// what runs here needs some of it too.
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
