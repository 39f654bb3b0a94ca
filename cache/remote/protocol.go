// Package remote is the shared cache on another machine, as a build sees it. A program of its own, kbuild-remote, speaks to the server; this
// package starts it, asks it, and sees to it that no server makes a build wrong, or slower than by two seconds.
package remote

import "github.com/kbuild-dev/kbuild/cache"

// Protocol is the version of the messages between kbuild and kbuild-remote, each one line of JSON.
const Protocol = 1

// Operations of kbuild-remote. Hello comes first; all others may be under way at once, and are answered in any order.
const (
	Hello   = "hello"   // connects to Address. Answer: Server, ReadOnly
	Records = "records" // of Command. Answer: Records, Bytes
	Has     = "has"     // asks whether all outputs of Record are there. Answer: Found
	Fetch   = "fetch"   // brings the content of Output into the store. Answer: Found, Bytes
	Store   = "store"   // sends Record, which the store has. Answer: Bytes
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
	Bytes    int64           `json:"bytes,omitempty"` // on the wire
	Moves    bool            `json:"moves,omitempty"` // no answer yet: content of the request is on its way
}
