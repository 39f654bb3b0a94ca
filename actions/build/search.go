package build

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/compiler/host"
	"github.com/kbuild-dev/kbuild/graph/compiler/nvcc"
)

// Where a compiler searches is asked of it, after a command that ran: once in a run of kbuild for each set of flags that decide on it.
// A question takes some 5 ms of processor time; a target has one, or one for each language. What the answer is goes into the record,
// so a build that runs nothing asks nothing.

// searched is a question and its answer.
type searched struct {
	once  sync.Once
	lists []host.Search
	ok    bool
}

// searches are the lists of folders that the command of a searches, one for each of the compilers that it runs; ok is false if that
// cannot be known.
func (r *Runner) searches(ctx context.Context, a *graph.Action) (lists []host.Search, ok bool) {
	files := slices.Concat(a.Inputs, a.Outputs, a.Step().UnkeyedPaths, []string{a.Depfile})
	for _, s := range a.Step().Staged {
		files = append(files, graph.StageDir+"/"+s.Name)
	}
	question := host.AskSearch(a.Argv, files, "")
	put := func(ctx context.Context) ([]host.Search, bool) { return r.askSearch(ctx, a, question) }
	if isNVCC(a) {
		question = dryRun(a)
		put = func(ctx context.Context) ([]host.Search, bool) { return r.askNVCC(ctx, a, question) }
	}
	key := strings.Join(append(question, a.Env...), "\x00")
	for range 2 {
		r.mu.Lock()
		if r.answers == nil {
			r.answers = map[string]*searched{}
		}
		known := r.answers[key]
		if known == nil {
			known = new(searched)
			r.answers[key] = known
		}
		r.mu.Unlock()
		known.once.Do(func() { known.lists, known.ok = put(ctx) })
		if !r.haveCome(known.lists) {
			return known.lists, known.ok
		}
		r.mu.Lock()
		delete(r.answers, key) // this build made a folder that was missing
		r.mu.Unlock()
	}
	return nil, false
}

// isNVCC reports a compile by nvcc as one command.
func isNVCC(a *graph.Action) bool {
	return a.Tools[0] == "nvcc" && (a.Kind == graph.Compile || a.Kind == graph.ModuleEmit)
}

// dryRun has nvcc tell what it runs for such a compile.
func dryRun(a *graph.Action) []string {
	return append(a.Argv[:1:1], nvcc.Ask(a.Argv, a.Inputs[0], a.Outputs[0], a.Depfile)...)
}

// haveCome reports that a folder is there which was missing when a compiler was asked.
func (r *Runner) haveCome(lists []host.Search) bool {
	return slices.ContainsFunc(lists, func(s host.Search) bool { return slices.ContainsFunc(s.Missing, r.isFolder) })
}

func (r *Runner) isFolder(dir string) bool {
	if !r.Listing.Exists(dir) {
		return false
	}
	info, err := os.Stat(r.abs(dir))
	return err == nil && info.IsDir()
}

// askSearch asks a gcc or clang.
func (r *Runner) askSearch(ctx context.Context, a *graph.Action, question []string) ([]host.Search, bool) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, false
	}
	defer null.Close() // for the text, which of CUDA is large
	s, ok := host.ParseSearch(r.ask(ctx, a, question, null))
	for i, d := range s.Dirs {
		s.Dirs[i] = r.name(d)
	}
	s.Dirs = compact(s.Dirs)
	for i, d := range s.Missing {
		s.Missing[i] = r.name(path.Clean(d))
	}
	return []host.Search{s}, ok
}

// compact leaves out what a list has already. gcc does so too, by inode.
func compact(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// askNVCC asks the compilers by which nvcc preprocesses, once nvcc has said which these are.
func (r *Runner) askNVCC(ctx context.Context, a *graph.Action, question []string) (lists []host.Search, ok bool) {
	argvs, err := nvcc.Preprocesses(r.answer(ctx, a, question))
	if err != nil || len(argvs) == 0 {
		return nil, false
	}
	asked := map[string]bool{}
	for _, argv := range argvs {
		q := host.AskSearch(argv, []string{nvcc.AskSource}, "")
		if key := strings.Join(q, "\x00"); !asked[key] {
			asked[key] = true
			list, ok := r.askSearch(ctx, a, q)
			if !ok {
				return nil, false
			}
			lists = append(lists, list...)
		}
	}
	return lists, true
}

// answer runs a question where and with what the command of a runs.
func (r *Runner) answer(ctx context.Context, a *graph.Action, question []string) string {
	return r.ask(ctx, a, question, nil)
}

// ask is answer with standard output somewhere else.
func (r *Runner) ask(ctx context.Context, a *graph.Action, question []string, stdout *os.File) string {
	if r.makeTemp() != nil {
		return ""
	}
	env := append(append(slices.Clone(r.Env), "TMPDIR="+filepath.Join(r.State, "tmp")), a.Env...)
	out, err := run.Run(ctx, run.Command{Argv: question, Dir: r.Root, Env: env, MaxOutput: mostAnswered, Stdout: stdout})
	if err != nil || out.LeftOut > 0 {
		return ""
	}
	return string(out.Output)
}

// mostAnswered is how much of an answer is read.
const mostAnswered = 4 << 20

// folders are where the driver that a runs by argv looks for programs and libraries. Lists are as it gives them.
func (r *Runner) folders(ctx context.Context, a *graph.Action, argv []string) (host.Folders, bool) {
	question := host.AskFolders(argv)
	key := strings.Join(append(question, a.Env...), "\x00")
	r.mu.Lock()
	text, known := r.told[key]
	r.mu.Unlock()
	if !known {
		text = r.answer(ctx, a, question)
		r.mu.Lock()
		if r.told == nil {
			r.told = map[string]string{}
		}
		r.told[key] = text
		r.mu.Unlock()
	}
	f, ok := host.ParseFolders(text)
	for _, list := range [2][]string{f.Programs, f.Libraries} {
		for i, d := range list {
			list[i] = r.name(d)
		}
	}
	return f, ok
}

// known reports a compiler that can be asked: one whose content is known.
func (r *Runner) known(a *graph.Action) bool {
	return len(a.Tools) > 0 && r.Tools[a.Tools[0]] != ""
}
