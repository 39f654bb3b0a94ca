package cache

// Kind is the kind of what a build observed at a path.
type Kind uint8

const (
	KindFile   Kind = iota // a file of known content; or anything, compared by stat only
	KindAbsent             // nothing exists
	KindFolder             // a folder with exactly these names
	KindGuard              // a folder without the names of Observation.Absent
)

// LeadsTo separates the name of a link from its target. No name contains it.
const LeadsTo = "//"

// Observation is one path that a build depends on, and what the build observed there. The observer
// sets Path and Kind. The code that keeps the observation for the next build adds the fields that
// decide whether it is still valid.
type Observation struct {
	Path string // relative to the root of the project, or absolute
	Kind Kind
	Stat Stat `json:",omitzero"` // zero for KindAbsent; may have only the mode if Young
	// Digest of the content of a file, or of the names in a folder; zero if only stat decides.
	Digest Digest `json:",omitzero"`
	// Of a KindGuard: names that do not exist, or links, as NAME + LeadsTo + TARGET.
	Absent []string `json:",omitzero"`
	// of a file: a link to such a file is invalid, as for all outputs
	MustBeRegular bool `json:"Output,omitzero"`
	// For a file: only an equal stat makes it valid, equal content does not.
	ByStat bool `json:",omitzero"`
	Plan   bool `json:",omitzero"` // the plan depends on it; otherwise only actions do
	Young  bool `json:",omitzero"` // too recent: an equal stat does not prove equal content
	// For a Young file: when this content was first read under this stat, in ns since 1970; 0 if
	// unknown.
	Seen int64 `json:",omitzero"`
}
