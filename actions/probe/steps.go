package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// Steps remembers the output of nvcc --dryrun, hipcc -### and clang -### for some tools and one
// environment. It is a trace (cache/trace): an answer of clang depends on the option files that its
// question names, and on the device libraries that it names itself. If one of them has changed, the
// tools are queried again.
type Steps struct {
	Runs map[string]toolchain.DryRun // by toolchain.Question.Key

	// fleeting holds queries whose answers are not saved: failures of the moment, and refusals of
	// clang.
	fleeting map[string]bool
	drivers  map[string]driver
	file     string
	key      cache.Key
	observer *trace.Observer // of the answers
}

// driver is a program that answers queries.
type driver struct {
	path string
	env  []string // complete
}

// OpenSteps reads the answers that the folder dir holds. env is the complete environment that the
// tools of f get; keyEnv is the part of it that can change an answer.
func OpenSteps(dir string, f plan.Facts, env, keyEnv []string) *Steps {
	s := &Steps{Runs: map[string]toolchain.DryRun{}, fleeting: map[string]bool{}, drivers: map[string]driver{}, observer: trace.NewObserver("/", time.Now(), 0)}
	if k := f.CUDA; k != nil {
		s.drivers["nvcc"] = driver{k.NVCC.Path, env}
	}
	if k := f.CUDA; k != nil && k.Clang != nil {
		s.drivers["clang"] = driver{k.Clang.Driver.Path, env}
	}
	if k := f.HIP; k != nil {
		s.drivers["hip"] = driver{k.Driver.Path, slices.Concat(env, k.Env, []string{hipccVerbose})}
	}
	if len(s.drivers) == 0 {
		return s
	}
	name := "steps-" + Fingerprint(f, keyEnv)
	s.file, s.key = filepath.Join(dir, name+".trace"), sha256.Sum256([]byte(name))
	value, observed, ok := trace.Load(s.file, s.key, "/")
	if !ok || json.Unmarshal(value, &s.Runs) != nil {
		s.Runs = map[string]toolchain.DryRun{}
		return s
	}
	for _, o := range observed {
		s.observer.Observe(o)
	}
	return s
}

// Fingerprint returns a fingerprint of all that an answer depends on besides the query. It covers
// the tools by content, and the environment variables that can change an answer.
func Fingerprint(f plan.Facts, keyEnv []string) string {
	var about []string
	if k := f.CUDA; k != nil {
		about = append(about, k.NVCC.Path, k.NVCC.ID)
		if k.Clang != nil {
			about = append(about, "clang", k.Clang.Driver.Path, k.Clang.Driver.ID, k.Clang.CUDAPath)
		}
	}
	if k := f.HIP; k != nil {
		about = append(about, "hip", k.Driver.Path, k.Driver.ID)
		keyEnv = slices.Concat(keyEnv, k.Env)
	}
	sum := sha256.Sum256([]byte(strings.Join(append(about, keyEnv...), "\x00")))
	return fmt.Sprintf("%x", sum[:12])
}

// observation is a path that an answer depends on. The digest is zero if nothing can be read there.
type observation struct {
	path   string
	digest cache.Digest
}

// filesIn returns the paths that arguments name absolutely. Options in those files change an
// answer.
func filesIn(args []string) (files []observation) {
	for _, a := range args {
		for _, name := range strings.FieldsFunc(a, func(c rune) bool { return c == '=' || c == '@' }) {
			if filepath.IsAbs(name) {
				digest, _ := cache.DigestFile(name)
				files = append(files, observation{filepath.Clean(name), digest})
			}
		}
	}
	return files
}

// deviceLibs returns the device libraries that an answer of clang names. If one is gone, the
// libraries were moved.
func deviceLibs(text string) (files []observation) {
	const option = `"-mlink-builtin-bitcode" "`
	for i := strings.Index(text, option); i >= 0; i = strings.Index(text, option) {
		text = text[i+len(option):]
		file, _, _ := strings.Cut(text, `"`)
		digest, _ := cache.DigestFile(file)
		files = append(files, observation{file, digest})
	}
	return files
}

// observe adds what an answer depends on.
func (s *Steps) observe(files []observation) {
	for _, f := range files {
		switch {
		case !f.digest.IsZero():
			s.observer.Text(f.path, f.digest)
		case exists(f.path):
			s.observer.Observe(cache.Observation{Path: f.path, Kind: cache.KindFile})
		default:
			s.observer.Observe(cache.Observation{Path: f.path, Kind: cache.KindAbsent})
		}
	}
}

// Query queries the tools and remembers the answers.
func (s *Steps) Query(ctx context.Context, questions []toolchain.Question) error {
	answers := make([]toolchain.DryRun, len(questions))
	trouble := make([]bool, len(questions))
	files := make([][]observation, len(questions))
	var g errgroup.Group
	g.SetLimit(4)
	for i, q := range questions {
		g.Go(func() error {
			answers[i], files[i], trouble[i] = s.ask(ctx, q)
			return nil
		})
	}
	g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, q := range questions {
		s.Runs[q.Key()], s.fleeting[q.Key()] = answers[i], trouble[i]
		s.observe(files[i])
	}
	s.save()
	return nil
}

// ask runs a driver. files are the paths that the answer depends on. trouble reports that the answer
// must not be saved.
func (s *Steps) ask(ctx context.Context, q toolchain.Question) (answer toolchain.DryRun, files []observation, trouble bool) {
	dir, err := queryFolder()
	if err != nil {
		return toolchain.DryRun{Error: err.Error()}, nil, true
	}
	defer os.RemoveAll(dir)
	if q.Offload != nil {
		if err := os.WriteFile(filepath.Join(dir, toolchain.QueryInput), fatbin.EmptyOffload(q.Offload), 0o666); err != nil {
			return toolchain.DryRun{Error: err.Error()}, nil, true
		}
	}
	clang := q.Tool == "hip" || q.Tool == "clang"
	if clang {
		files = filesIn(q.Args) // before clang reads them
	}
	d := s.drivers[q.Tool]
	cmd := exec.CommandContext(ctx, cmp.Or(q.Program, d.path), q.Args...)
	cmd.Dir, cmd.Env = dir, append(nvcc.QueryEnviron(d.env), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), dir+"/", "")
	if clang {
		text = escapedByte().ReplaceAllString(text, "$1") // as JSON the text must be UTF-8
	}
	switch {
	case err != nil:
		return toolchain.DryRun{Error: strings.TrimSpace(fmt.Sprintf("%v: %s", err, complaint(text)))}, files, clang || isTrouble(err)
	case clang && refusal().MatchString(text): // with -###, clang refuses with status 0
		return toolchain.DryRun{Error: complaint(text)}, files, true
	}
	if clang {
		files = append(files, deviceLibs(text)...)
	}
	return toolchain.DryRun{Text: text}, files, false
}

// queryFolder creates a folder to run a query in, with the input files that a question names: clang
// requires them to exist.
func queryFolder() (dir string, err error) {
	if dir, err = makeTemp("kbuild-ask-"); err != nil {
		return "", err
	}
	for _, name := range []string{clang.QuerySource, toolchain.QueryInput} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

// escapedByte matches hipcc's escape of a byte of a non-ASCII character.
var escapedByte = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\([^\x00-\x7f])`) })

// refusal matches the start of an error of clang's driver. The driver prints the name that it was
// called by: clang, and since 17 in Debian clang++-17.
var refusal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^(?:\S*/)?clang(?:\+\+)?(?:-\d+)?: error: `) })

// complaint returns the line of an error that states the reason: clang prints more after it.
func complaint(text string) string {
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "error: ") {
			return line
		}
	}
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// NoteSplitFailure records that an answer was misparsed, and why: the tool runs as one command in this
// project. The answer is not saved, so other projects query again.
func (s *Steps) NoteSplitFailure(question, why string) {
	s.fleeting[question] = true
	s.Runs[question] = toolchain.DryRun{SplitFailure: why}
}

// Observed returns what the answers depend on. ok is false if that is not known.
func (s *Steps) Observed() (observed []cache.Observation, ok bool) { return s.observer.List() }

// save is best effort. It omits failures of the moment and refusals, which are queried again.
func (s *Steps) save() {
	lasting := maps.Clone(s.Runs)
	maps.DeleteFunc(lasting, func(question string, _ toolchain.DryRun) bool { return s.fleeting[question] })
	value, err := json.Marshal(lasting)
	if list, ok := s.observer.List(); ok && err == nil {
		trace.Save(s.file, s.key, value, slices.Clone(list))
	}
}
