package cache

// Kind says what was seen at a path.
type Kind uint8

const (
	KindFile   Kind = iota // a file of known content; or whatever is there, by its stat alone
	KindAbsent             // nothing
	KindFolder             // a folder with exactly these names
	KindGuard              // a folder without the names of Observation.Absent
)

// Observation is one path that a build depends on, and what was there. Who looks at the path gives
// Path and Kind; who keeps the observation for the next build adds what tells whether it still
// holds.
type Observation struct {
	Path   string // relative to the root of the project, or absolute
	Kind   Kind
	Stat   Stat     `json:",omitzero"` // zero for KindAbsent; of what is Young perhaps the mode alone
	Digest Digest   `json:",omitzero"` // of the content of a file, of the names of a folder; zero if only stat can decide
	Absent []string `json:",omitzero"` // of a KindGuard
	Output bool     `json:",omitzero"` // a file that must not be a link
	ByStat bool     `json:",omitzero"` // of a file: what it holds does not settle it
	Plan   bool     `json:",omitzero"` // the plan depends on it, else actions do
	Young  bool     `json:",omitzero"` // stat cannot vouch for it
	Seen   int64    `json:",omitzero"` // of a Young file, ns since 1970: when this content was first seen under this stat; 0 is unknown
}
