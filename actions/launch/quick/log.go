package quick

import (
	"encoding/json"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

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

// LogFile returns the file where calls are logged. If the environment does not name a cache, the
// call is logged in the user's default cache. The name is empty if the user has no home.
func LogFile(store *disk.Store) string {
	if store != nil {
		return filepath.Join(store.Folder(), "commands", "log")
	}
	me, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || !filepath.IsAbs(me.HomeDir) {
		return ""
	}
	return filepath.Join(me.HomeDir, ".cache", "kbuild", "commands", "log")
}

// mostLog is the size of the log, in bytes, from which it is begun again. The log before it is
// kept.
const mostLog = 16 << 20

// Log writes a line; store is nil for a call without a cache. It ignores errors.
func (c *Call) Log(store *disk.Store, e Entry) {
	e.Time, e.Dir, e.Argv, e.Elapsed = c.Begun, c.Dir, c.Argv, time.Since(c.Begun)
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	name := LogFile(store)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if os.IsNotExist(err) && os.MkdirAll(filepath.Dir(name), 0o777) == nil {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	}
	if err != nil {
		return
	}
	defer f.Close()
	f.Write(append(line, '\n'))
	if info, err := f.Stat(); err == nil && info.Size() > mostLog {
		turn(f, info, name)
	}
}

// turn begins the log again. If many processes find it full, only one begins it again. None takes
// the new log for the full one, which would lose the calls before.
func turn(f *os.File, full os.FileInfo, name string) {
	if unix.Flock(int(f.Fd()), unix.LOCK_EX) != nil {
		return
	}
	if now, err := os.Stat(name); err == nil && os.SameFile(now, full) {
		os.Rename(name, name+".1")
	}
}
