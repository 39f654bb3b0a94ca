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

	"golang.org/x/sync/errgroup"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/cache/regular"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/clang"
	"github.com/kbuild-dev/kbuild/graph/toolchain/nvcc"
)

// Steps remembers the output of nvcc --dryrun, hipcc -### and clang -### for some tools and one
// environment. It is only a memo: without its file the tools are queried again.
type Steps struct {
	Runs map[string]toolchain.DryRun // by toolchain.Question.Key

	// fleeting holds queries whose answers are not saved: failures of the moment, and refusals of
	// clang.
	fleeting map[string]bool
	drivers  map[string]driver
	file     string
	text     []byte
}

// driver is a program that answers queries.
type driver struct {
	path string
	env  []string // complete
}

// OpenSteps reads the answers that the folder dir holds. env is the complete environment that the
// tools of f get; keyEnv is the part of it that can change an answer.
func OpenSteps(dir string, f plan.Facts, env, keyEnv []string) *Steps {
	s := &Steps{Runs: map[string]toolchain.DryRun{}, fleeting: map[string]bool{}, drivers: map[string]driver{}}
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
	s.file = filepath.Join(dir, "steps-"+Fingerprint(f, keyEnv)+".json")
	if sealed, err := regular.Read(s.file); err == nil {
		s.text = sealed
		if text, ok := unseal(filepath.Base(s.file), sealed); !ok || json.Unmarshal(text, &s.Runs) != nil {
			s.Runs = map[string]toolchain.DryRun{}
		}
	}
	maps.DeleteFunc(s.Runs, func(_ string, run toolchain.DryRun) bool {
		return lacksLibs(run.Text) || !maps.Equal(run.Files, filesIn(run.Asked))
	})
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

// filesIn returns the files that arguments name by an absolute path, with digests of their content.
// Options in those files change an answer.
func filesIn(args []string) map[string]string {
	files := map[string]string{}
	for _, a := range args {
		for _, name := range strings.FieldsFunc(a, func(c rune) bool { return c == '=' || c == '@' }) {
			if !filepath.IsAbs(name) {
				continue
			}
			if text, err := regular.Read(name); err == nil {
				files[name] = fmt.Sprintf("%x", sha256.Sum256(text))
			}
		}
	}
	return files
}

// lacksLibs reports whether an answer of clang names a device library that no longer exists: the
// libraries were moved.
func lacksLibs(text string) bool {
	const option = `"-mlink-builtin-bitcode" "`
	for i := strings.Index(text, option); i >= 0; i = strings.Index(text, option) {
		text = text[i+len(option):]
		if file, _, _ := strings.Cut(text, `"`); !exists(file) {
			return true
		}
	}
	return false
}

// Query queries the tools and remembers the answers.
func (s *Steps) Query(ctx context.Context, questions []toolchain.Question) error {
	answers := make([]toolchain.DryRun, len(questions))
	trouble := make([]bool, len(questions))
	var g errgroup.Group
	g.SetLimit(4)
	for i, q := range questions {
		g.Go(func() error {
			answers[i], trouble[i] = s.ask(ctx, q)
			return nil
		})
	}
	g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, q := range questions {
		s.Runs[q.Key()], s.fleeting[q.Key()] = answers[i], trouble[i]
	}
	s.save()
	return nil
}

func (s *Steps) ask(ctx context.Context, q toolchain.Question) (answer toolchain.DryRun, trouble bool) {
	dir, err := queryFolder()
	if err != nil {
		return toolchain.DryRun{Error: err.Error()}, true
	}
	defer os.RemoveAll(dir)
	if q.Offload != nil {
		if err := os.WriteFile(filepath.Join(dir, toolchain.QueryInput), fatbin.EmptyOffload(q.Offload), 0o666); err != nil {
			return toolchain.DryRun{Error: err.Error()}, true
		}
	}
	d := s.drivers[q.Tool]
	cmd := exec.CommandContext(ctx, cmp.Or(q.Program, d.path), q.Args...)
	cmd.Dir, cmd.Env = dir, append(nvcc.QueryEnviron(d.env), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), dir+"/", "")
	clang := q.Tool == "hip" || q.Tool == "clang"
	if clang {
		text = escapedByte().ReplaceAllString(text, "$1") // as JSON the text must be UTF-8
	}
	switch {
	case err != nil:
		return toolchain.DryRun{Error: strings.TrimSpace(fmt.Sprintf("%v: %s", err, complaint(text)))}, clang || isTrouble(err)
	case clang && refusal().MatchString(text): // with -###, clang refuses with status 0
		return toolchain.DryRun{Error: complaint(text)}, true
	}
	answer = toolchain.DryRun{Text: text}
	if clang {
		if files := filesIn(q.Args); len(files) > 0 {
			answer.Asked, answer.Files = q.Args, files
		}
	}
	return answer, false
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

// Misparsed records that an answer was misparsed, and why: the tool runs as one command in this
// project. The answer is not saved, so other projects query again.
func (s *Steps) Misparsed(question, why string) {
	s.fleeting[question] = true
	s.Runs[question] = toolchain.DryRun{Misparsed: why}
}

// Remembered returns the file that holds the answers and its text as last read or written. Without
// a toolkit the file is "".
func (s *Steps) Remembered() (file string, text []byte) { return s.file, s.text }

// save is best effort. It omits failures of the moment and refusals, which are queried again.
func (s *Steps) save() {
	lasting := maps.Clone(s.Runs)
	maps.DeleteFunc(lasting, func(question string, _ toolchain.DryRun) bool { return s.fleeting[question] })
	text, err := json.Marshal(lasting)
	if err != nil {
		return
	}
	s.text = seal(filepath.Base(s.file), text)
	regular.Replace(s.file, s.text)
}
