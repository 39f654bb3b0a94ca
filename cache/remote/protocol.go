// Package remote is the client of the remote cache in a build. A separate program, kbuild-remote,
// talks to the server; this package starts it and sends it requests. It knows no protocol of
// servers. It guarantees that no server makes a build wrong, or slower than by the time that
// Options.Patience allows.
package remote

import (
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// Protocol is the version of the messages between kbuild and kbuild-remote, each one line of JSON.
const Protocol = 2

// Operations of kbuild-remote. Hello comes first. All others may be concurrent and are answered in
// any order.
const (
	Hello   = "hello"   // connects to Address. Answer: Server, ReadOnly, Executes
	Records = "records" // returns the records of Command. Answer: Records, Bytes
	Has     = "has"     // reports whether the server has all outputs of Record. Answer: Found
	Fetch   = "fetch"   // stores the content of Output in the local store. Answer: Found, Bytes
	Store   = "store"   // sends Record, which the local store has. Answer: Bytes
	Execute = "execute" // runs Run on a remote machine. Answer: Ran, or Fatal
	Cancel  = "cancel"  // cancels the request Cancels. No answer
)

// Request is a message from kbuild to kbuild-remote.
type Request struct {
	ID        int           `json:"id"`
	Operation string        `json:"op"`
	Protocol  int           `json:"protocol,omitempty"`
	Address   string        `json:"address,omitempty"`
	Dir       string        `json:"dir,omitempty"`       // of the local store
	ReadOnly  bool          `json:"read_only,omitempty"` // for Hello: nothing will be stored
	Command   cache.Key     `json:"command,omitzero"`
	Record    *cache.Record `json:"record,omitempty"`
	Output    *cache.Output `json:"output,omitempty"`
	Cancels   int           `json:"cancels,omitempty"`
	Run       *Command      `json:"run,omitempty"`
	// For Hello: how long a server may be silent while commands run; 0 means the default.
	Patience time.Duration `json:"patience,omitempty"`
}

// Answer is a message from kbuild-remote to kbuild.
type Answer struct {
	ID    int    `json:"id"`
	Error string `json:"error,omitempty"`
	// The server denied the user access or writing.
	Denied bool `json:"denied,omitempty"`
	// Error is of the local store, such as a full disk, not of the server.
	Local bool `json:"local,omitempty"`
	// The server refused the request because there are too many.
	Busy     bool            `json:"busy,omitempty"`
	Server   string          `json:"server,omitempty"`
	ReadOnly bool            `json:"read_only,omitempty"`
	Records  []*cache.Record `json:"records,omitempty"`
	Found    bool            `json:"found,omitempty"`
	Bytes    int64           `json:"bytes,omitempty"` // on the wire
	// Not the final answer: content of the request is being transferred.
	Moves    bool     `json:"moves,omitempty"`
	Executes bool     `json:"executes,omitempty"` // the server runs commands
	Ran      *Outcome `json:"ran,omitempty"`
	Fatal    bool     `json:"fatal,omitempty"` // other commands would get the same Error
}

// Command is a process to run on a remote machine. Its working directory contains its inputs and
// nothing else.
type Command struct {
	Argv     []string    `json:"argv"`
	Env      []string    `json:"env"` // complete, KEY=VALUE
	Inputs   []Input     `json:"inputs"`
	Folders  []string    `json:"folders"` // folders that must exist even without inputs
	Outputs  []Output    `json:"outputs"` // the files that it writes
	Platform [][2]string `json:"platform,omitempty"`
}

// Input is a file of a command.
type Input struct {
	Path   string       `json:"path"` // relative to the working directory, with slashes
	File   string       `json:"file"` // local file, absolute
	Digest cache.Digest `json:"digest"`
	Size   int64        `json:"size"` // in bytes
	Exec   bool         `json:"exec,omitempty"`
}

// Output is a file that a command writes.
type Output struct {
	Path string `json:"path"` // relative to the working directory, with slashes
	File string `json:"file"` // local destination, absolute, in an existing folder
}

// Outcome is the result of a command. If ExitCode is 0 all outputs are written.
type Outcome struct {
	ExitCode       int           `json:"exit_code"`
	Stdout         []byte        `json:"stdout,omitempty"`
	Stderr         []byte        `json:"stderr,omitempty"`
	Elapsed        time.Duration `json:"elapsed"` // of the process
	Worker         string        `json:"worker,omitempty"`
	Sent, Received int64         // bytes of content
	Moving         time.Duration `json:"moving"` // duration of these transfers
}
