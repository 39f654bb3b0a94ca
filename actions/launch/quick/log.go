package quick

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/kbuild-dev/kbuild/cache/disk"
)

// Entry is a line of the log, about one call.
type Entry struct {
	Time    time.Time     `json:"time"`
	Result  string        `json:"result"` // Hit, Miss or Left
	Dir     string        `json:"dir"`
	Argv    []string      `json:"argv"`
	Why     string        `json:"why,omitempty"`     // for Left: why; for Miss: what has changed
	Ran     int           `json:"ran,omitempty"`     // number of passes that ran
	Taken   int           `json:"taken,omitempty"`   // number of passes restored from the cache
	Elapsed time.Duration `json:"elapsed,omitempty"` // for Hit and Miss, ns
}

// Results of calls.
const (
	Hit  = "hit"  // nothing ran
	Miss = "miss" // some passes ran
	Left = "left" // the compiler ran as it is
)

// LogFile returns the file where calls are logged.
func LogFile(store *disk.Store) string { return filepath.Join(store.Folder(), "commands", "log") }

// mostLog is the size of the log, in bytes, from which it is begun again. The log before it is
// kept.
const mostLog = 16 << 20

// Log writes a line, if there is a cache. It ignores errors.
func (c *Call) Log(e Entry) {
	e.Time, e.Dir, e.Argv, e.Elapsed = c.Begun, c.Dir, c.Argv, time.Since(c.Begun)
	line, err := json.Marshal(e)
	if err != nil || c.Store == nil {
		return
	}
	name := LogFile(c.Store)
	os.MkdirAll(filepath.Dir(name), 0o777)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return
	}
	defer f.Close()
	f.Write(append(line, '\n'))
	full, err := f.Stat()
	if err != nil || full.Size() <= mostLog {
		return
	}
	// many processes may find it full, and the first begins it again
	if now, err := os.Stat(name); err == nil && os.SameFile(now, full) {
		os.Rename(name, name+".1")
	}
}
