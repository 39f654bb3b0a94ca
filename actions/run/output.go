package run

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// The output of a command is kept whole up to a limit. Beyond it, only its beginning and its end
// are kept, cut at lines: the first error of a compiler matters, and the last words of a driver. A
// record, the cache, a terminal and JSON each hold another copy of the output: 100 MB took 1 to 1.9
// GB. The command is not stopped, and never waits.

// DefaultOutput is how much of a command's output is kept, in bytes.
const DefaultOutput = 1 << 20

// output keeps the first and the last half of what is written to it.
type output struct {
	half int
	head []byte
	tail []byte // cut to half when it is twice as long
	left int64  // bytes that were cut off
}

// Write implements io.Writer. It never fails.
func (o *output) Write(b []byte) (int, error) {
	k := min(len(b), o.half-len(o.head))
	o.head = append(o.head, b[:k]...)
	o.tail = append(o.tail, b[k:]...)
	if len(o.tail) >= 2*o.half {
		o.cut()
	}
	return len(b), nil
}

func (o *output) cut() {
	if over := len(o.tail) - o.half; over > 0 {
		o.left += int64(over)
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
}

// ReadFrom implements io.ReaderFrom, which io.Copy prefers to a buffer of its own: most commands
// print nothing, and there may be 100,000.
func (o *output) ReadFrom(r io.Reader) (n int64, err error) {
	buf := outputBuffers.Get().(*[4 << 10]byte)
	defer outputBuffers.Put(buf)
	for {
		k, err := r.Read(buf[:])
		o.Write(buf[:k])
		if n += int64(k); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

var outputBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// bytes returns the output that is kept, and how many bytes are left out.
func (o *output) bytes() (printed []byte, left int64) {
	o.cut()
	head, tail := o.head, o.tail
	if o.left == 0 {
		return append(head, tail...), 0
	}
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end+1]
	}
	if end := bytes.IndexByte(tail, '\n'); end >= 0 {
		tail = tail[end+1:]
	}
	left = o.left + int64(len(o.head)-len(head)) + int64(len(o.tail)-len(tail))
	printed = fmt.Appendf(bytes.Clone(head), "kbuild: %d bytes of output are left out here\n", left)
	return append(printed, tail...), left
}

// Shorten keeps the first and the last half of at most so many bytes of text.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	o := output{half: most / 2}
	o.Write([]byte(text))
	printed, _ := o.bytes()
	return string(printed)
}
