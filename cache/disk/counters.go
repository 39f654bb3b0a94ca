package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// The counters file has a line for each build: five numbers and their check sum, "+" at its end. Lines
// are appended under a lock, in one write; a line that does not parse counts nothing. A file past
// maxCounters is folded into one line.

const maxCounters = 64 << 10

// Count adds the counters of a build to those of the store.
func (s *Store) Count(c cache.Counters) error {
	if c == (cache.Counters{}) {
		return nil
	}
	return s.unwritable(s.count(c))
}

func (s *Store) count(c cache.Counters) error {
	f, err := regular.Open(s.path("counters"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	lock(f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxCounters {
		old, err := s.counted()
		if err != nil {
			return err
		}
		c = c.Add(old)
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	// The newline comes first, so that a line torn by a full disk spoils only itself.
	_, err = fmt.Fprintf(f, "\n%s+", countersLine(c))
	return err
}

// counted sums the counters file.
func (s *Store) counted() (sum cache.Counters, err error) {
	b, err := readAtMost(s.path("counters"), 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return sum, nil
	}
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		var c cache.Counters
		var saved, check int64
		n, _ := fmt.Sscanf(string(line), "%d %d %d %d %d %d+", &c.Direct, &c.Stage, &c.Misses, &c.Bytes, &saved, &check)
		c.Saved = time.Duration(saved)
		if n == 6 && string(line) == countersLine(c)+"+" {
			sum = sum.Add(c)
		}
	}
	return sum, err
}

func countersLine(c cache.Counters) string {
	check := c.Direct ^ c.Stage<<1 ^ c.Misses<<2 ^ c.Bytes<<3 ^ int64(c.Saved)<<4
	return fmt.Sprintf("%d %d %d %d %d %d", c.Direct, c.Stage, c.Misses, c.Bytes, int64(c.Saved), check)
}
