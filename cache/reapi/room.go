package reapi

import (
	"fmt"
	"sync"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// A machine that runs commands may say of an output that it has any size, and send so much. What comes is written as it comes, and never more than
// was said; so what is said is bounded before the first byte is asked for. A command that is over a bound is lost, and runs here.

// maxMade is how many bytes all outputs of a command may have. Code for GPUs ends in a host program, whose parts reach each other over 2 GiB at most.
const maxMade = 2 << 30

// outputsOf are the outputs that a command should have made, in its order, and their bytes. Others that it tells of are not looked at.
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
		if b.Size > maxMade-total {
			return nil, 0, fmt.Errorf("%w: %s has %d bytes, and outputs of a command may have %d", ErrWrong, o.Path, b.Size, maxMade)
		}
		total += b.Size
		files = append(files, File{o.Path, b, f.GetIsExecutable()})
	}
	return files, total, nil
}

// room is the disk space that outputs on their way may take.
type room struct {
	mu    sync.Mutex
	taken int64
	free  func(dir string) (int64, error) // bytes of the file system; nil asks it
}

// take sets bytes aside below dir, until back is called. All that is on its way may have half of what is free: many commands at once would fill a
// disk that is large enough for each of them, and what runs here needs some of it too.
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
		return nil, fmt.Errorf("there is too little space in %s for the %d bytes that a command has made: %d are free, and %d are taken", dir, bytes, n, r.taken)
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
