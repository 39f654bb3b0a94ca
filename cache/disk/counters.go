package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/regular"
)

// The counters file has one line per build, of five numbers, three more if there was a remote
// cache, a checksum and a final "+". Each line is appended under a lock in one write. A line that
// does not parse is ignored. A file larger than maxCounters is folded into one line.

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
	// On file systems without locks this returns at once: only the counters depend on it.
	for unix.Flock(int(f.Fd()), unix.LOCK_EX) == unix.EINTR {
	}
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
	// The newline comes first, so that a line torn by a full disk damages only itself.
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
		if c := parseCounters(string(line)); string(line) == countersLine(c)+"+" {
			sum = sum.Add(c)
		}
	}
	return sum, err
}

// parseCounters parses a line of the counters file. For other lines the result is arbitrary.
func parseCounters(line string) (c cache.Counters) {
	var n [9]int64 // the last number of a line is the checksum
	count := 0
	for word := range strings.FieldsSeq(line) {
		if count == len(n) {
			return c
		}
		n[count], _ = strconv.ParseInt(word, 10, 64)
		count++
	}
	c = cache.Counters{Direct: n[0], Stage: n[1], Misses: n[2], Bytes: n[3], Saved: time.Duration(n[4])}
	if count == len(n) {
		c.Remote, c.Received, c.Sent = n[5], n[6], n[7]
	}
	return c
}

// countersLine writes five numbers if there was no remote cache, since older versions that share
// the file read and write that format.
func countersLine(c cache.Counters) string {
	check := c.Direct ^ c.Stage<<1 ^ c.Misses<<2 ^ c.Bytes<<3 ^ int64(c.Saved)<<4 ^ c.Remote<<5 ^ c.Received<<6 ^ c.Sent<<7
	more := ""
	if c.Remote|c.Received|c.Sent != 0 {
		more = fmt.Sprintf("%d %d %d ", c.Remote, c.Received, c.Sent)
	}
	return fmt.Sprintf("%d %d %d %d %d %s%d", c.Direct, c.Stage, c.Misses, c.Bytes, int64(c.Saved), more, check)
}
