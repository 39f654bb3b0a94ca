// Package remote is the shared cache on another machine, as a build sees it. A program of its own,
// kbuild-remote, speaks to the server; this package starts it, asks it, and sees to it that no
// server makes a build wrong, or slower than by two seconds.
package remote

import (
	"time"

	"github.com/kbuild-dev/kbuild/cache"
)

// Protocol is the version of the messages between kbuild and kbuild-remote, each one line of JSON.
const Protocol = 2

// Operations of kbuild-remote. Hello comes first; all others may be under way at once, and are
// answered in any order.
const (
	Hello   = "hello"   // connects to Address. Answer: Server, ReadOnly
	Records = "records" // of Command. Answer: Records, Bytes
	Has     = "has"     // asks whether all outputs of Record are there. Answer: Found
	Fetch   = "fetch"   // brings the content of Output into the store. Answer: Found, Bytes
	Store   = "store"   // sends Record, which the store has. Answer: Bytes
	Execute = "execute" // runs Run on a machine of the server's. Answer: Ran, or Fatal
	Cancel  = "cancel"  // ends the request Cancels. No answer
)

// Request is what kbuild sends.
type Request struct {
	ID        int           `json:"id"`
	Operation string        `json:"op"`
	Protocol  int           `json:"protocol,omitempty"`
	Address   string        `json:"address,omitempty"`
	Dir       string        `json:"dir,omitempty"` // of the local store
	ReadOnly  bool          `json:"read_only,omitempty"`
	Command   cache.Key     `json:"command,omitzero"`
	Record    *cache.Record `json:"record,omitempty"`
	Output    *cache.Output `json:"output,omitempty"`
	Cancels   int           `json:"cancels,omitempty"`
	Run       *Command      `json:"run,omitempty"`
	Patience  time.Duration `json:"patience,omitempty"` // of Hello: for how long a server may answer nothing while commands run; 0 is the default
}

// Answer is what kbuild-remote sends.
type Answer struct {
	ID       int             `json:"id"`
	Error    string          `json:"error,omitempty"`
	Denied   bool            `json:"denied,omitempty"` // Error is the server's answer to a writer that may not write
	Local    bool            `json:"local,omitempty"`  // Error is of the local store, such as a full disk, and no fault of the server
	Busy     bool            `json:"busy,omitempty"`   // Error is the server's answer where it is asked too much at once
	Server   string          `json:"server,omitempty"`
	ReadOnly bool            `json:"read_only,omitempty"`
	Records  []*cache.Record `json:"records,omitempty"`
	Found    bool            `json:"found,omitempty"`
	Bytes    int64           `json:"bytes,omitempty"`    // on the wire
	Moves    bool            `json:"moves,omitempty"`    // no answer yet: content of the request is on its way
	Executes bool            `json:"executes,omitempty"` // the server runs commands
	Ran      *Outcome        `json:"ran,omitempty"`
	Fatal    bool            `json:"fatal,omitempty"` // Error is one that other commands would get too
}

// Command is a process for another machine. It runs in a folder that holds its inputs and nothing
// else.
type Command struct {
	Argv     []string    `json:"argv"`
	Env      []string    `json:"env"` // complete, KEY=VALUE
	Inputs   []Input     `json:"inputs"`
	Folders  []string    `json:"folders"` // that are there though no input is in them
	Outputs  []Output    `json:"outputs"` // what it writes, each a file
	Platform [][2]string `json:"platform,omitempty"`
}

// Input is a file of a command.
type Input struct {
	Path   string       `json:"path"` // in the folder of the command, with slashes
	File   string       `json:"file"` // here, absolute
	Digest cache.Digest `json:"digest"`
	Size   int64        `json:"size"` // in bytes
	Exec   bool         `json:"exec,omitempty"`
}

// Output is a file that a command writes.
type Output struct {
	Path string `json:"path"` // in the folder of the command, with slashes
	File string `json:"file"` // where it is wanted here, absolute; its folder is there
}

// Outcome is how a command ended. If ExitCode is 0 all outputs are there.
type Outcome struct {
	ExitCode       int           `json:"exit_code"`
	Stdout         []byte        `json:"stdout,omitempty"`
	Stderr         []byte        `json:"stderr,omitempty"`
	Elapsed        time.Duration `json:"elapsed"` // of the process
	CPU            time.Duration `json:"cpu"`     // 0 is unknown
	MaxRSS         int64         `json:"max_rss"` // bytes; 0 is unknown
	Worker         string        `json:"worker,omitempty"`
	Sent, Received int64         // bytes of content
	Moving         time.Duration `json:"moving"` // time that Sent and Received took
}
