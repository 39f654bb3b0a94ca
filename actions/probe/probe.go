// Package probe observes the host environment and returns the Facts that the planner needs:
// toolkits, host compilers, GPUs, the content of prebuilt files. It plans nothing.
// How each toolchain is found is known to its package; this one is the host environment that they
// look into (find.Host), and remembers what they found.
package probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/fatbin"
	"github.com/kbuild-dev/kbuild/actions/run"
	"github.com/kbuild-dev/kbuild/cache"
	"github.com/kbuild-dev/kbuild/cache/trace"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/find"
	"github.com/kbuild-dev/kbuild/graph/toolchain/host"
	"github.com/kbuild-dev/kbuild/graph/toolchain/vendors"
)

// Request lists what to find out.
type Request struct {
	Root string // project root; relative paths of Prebuilt start here
	vendors.Needs
	Libs     []Lib
	Env      func(string) string
	MemoPath string // folder where answers are kept between runs; "" keeps none
}

// Collect gathers the facts. Faults of tools are part of the facts (CUDAError, Tool.Error), since
// only the planner knows whether the tool is needed. The error reports a host environment where
// nothing can be probed, such as a TempError.
//
// observed holds what the facts depend on. It is nil if that is not known, or if the next run must
// probe again. GPUs are not files, see GPUs.
func Collect(ctx context.Context, r Request) (facts plan.Facts, observed []cache.Observation, err error) {
	facts, observed, ok := r.remembered()
	if !ok {
		if err := checkTemp(); err != nil {
			return plan.Facts{}, nil, err
		}
		f, h := newFinder(ctx, r)
		facts = r.collect(f, h)
		if observed, ok = h.observed(); !ok || f.Unknown {
			observed = nil
		}
		observed = r.remember(facts, observed)
	}
	for _, name := range run.Names(run.NVCCOptions) {
		facts.CUDA.Flags = append(facts.CUDA.Flags, strings.Fields(r.Env(name))...)
	}
	facts.Prebuilt = map[string]toolchain.Library{}
	facts.Behind = map[string]plan.Behind{}
	for _, f := range r.Prebuilt {
		facts.Prebuilt[f] = inspect(r.Root, f)
		facts.Behind[f] = behind(ctx, r, f, facts.LibDirs())
		if l := languageOf(facts.Prebuilt[f]); l != "cuda" && !r.Wanted[l].Needed {
			r.Need(l) // a program of host sources that links the file needs its runtime
			return Collect(ctx, r)
		}
	}
	r.findLibs(ctx, &facts)
	if !r.Wanted["cuda"].Needed && (facts.AnyStatic() || facts.AnyNeedsToolkit()) {
		// A program of host sources that links them needs a device link, or the toolkit's
		// libraries.
		r.Need("cuda")
		return Collect(ctx, r)
	}
	if r.NeedNative {
		facts.NativeGPU = gpus(ctx, r.Env)
	}
	if r.NativeCPU {
		facts.NativeCPU = nativeCPU(ctx, r, facts)
	}
	if observed != nil {
		observed = r.observeFiles(observed, facts)
	}
	return facts, observed, ctx.Err()
}

// collect finds the tools.
func (r Request) collect(f *find.Finder, h *hostEnv) (facts plan.Facts) {
	facts.Installed, facts.CXX, facts.CC = r.Find(f)
	if k := facts.CUDA; k.Toolkit != nil && len(k.Code) > 0 {
		k.Makes = map[gencode.Kind]gencode.Version{}
		for kind, code := range k.Code {
			if v := fatbin.VersionOf(kind, []byte(code)); v != (gencode.Version{}) {
				k.Makes[kind] = v
			}
		}
	}
	facts.AR = archiver(f, h)
	facts.HostLTO = f.HostLTO(facts.CXX, facts.AR)
	if facts.CXX.Path != "" {
		help, err := f.Output(facts.CXX.Path, "-Wl,--help")
		facts.LinkDepfile = err == nil && strings.Contains(help, "--dependency-file")
	}
	if facts.LinkDepfile {
		version, _ := f.Answer(facts.CXX.Path, "-Wl,--version")
		facts.LinkTrace = strings.HasPrefix(version, "GNU ld ")
	}
	return facts
}

// The facts of the tools are stored as a trace (cache/trace): they are remembered while all files,
// folders and absent paths that the probing observed are unchanged.

// memoVersion must change when the probing, or the type of the facts, changes.
const memoVersion = 26

// memo returns the file that remembers the answers, "" for none, and the key of all that they
// depend on besides files. The processor decides which builds of a library are loaded
// (glibc-hwcaps): machines may share the memo and the libraries.
func (r Request) memo() (file string, key cache.Key) {
	named, _ := json.Marshal([]any{r.Wanted, r.HostCompiler})
	root := ""
	if bytes.Contains(named, []byte("/")) {
		root = r.Root // relative paths start there
	}
	b, _ := json.Marshal([]any{memoVersion, root, string(named), r.variables(), CPU("/")})
	key = sha256.Sum256(b)
	if r.MemoPath == "" {
		return "", key
	}
	return fmt.Sprintf("%s/%s.trace", r.MemoPath, key), key
}

// remembered returns the facts of the tools as last probed, and what they were made from. ok is
// false if they must be probed again.
func (r Request) remembered() (f plan.Facts, observed []cache.Observation, ok bool) {
	file, key := r.memo()
	if file == "" {
		return f, nil, false
	}
	value, observed, ok := trace.Load(file, key, "/")
	if ok {
		ok = json.Unmarshal(value, &f) == nil
	}
	return f, observed, ok
}

// remember stores the facts and returns what they were made from, nil if that is not known. Facts
// without a required toolkit are not stored: a toolkit that is installed later is then found by any
// next run. Storing is best effort: without the memo the next run probes again.
func (r Request) remember(f plan.Facts, observed []cache.Observation) []cache.Observation {
	if !r.Met(&f.Installed) || f.CXX.Path == "" {
		return nil
	}
	if file, key := r.memo(); file != "" && observed != nil {
		if value, err := json.Marshal(f); err == nil {
			trace.Save(file, key, value, observed)
		}
	}
	return observed
}

// Covered returns the files whose content is in the fingerprints of tools, by fingerprint. asked
// holds the watched paths: the tools are queried again when an absent one appears, or when a folder
// gets a new entry. Covered probes without the memo.
func Covered(ctx context.Context, r Request) (files map[string][]string, asked []string) {
	f, h := newFinder(ctx, r)
	r.collect(f, h)
	return f.Covers, slices.Sorted(maps.Keys(h.asked))
}

// ForCommand makes r a request for what the command c needs, which runs in dir. absent are paths
// that must stay absent. The error is the reason why the command passes through to its compiler: a
// script or a variable may have the compiler do anything.
func (r *Request) ForCommand(c *host.Command, dir string) (absent []string, err error) {
	f, _ := newFinder(context.Background(), *r)
	for _, name := range run.Names(run.Launched | run.PassOptions | run.NVCCOptions) {
		f.Env[name] = r.Env(name)
	}
	absent, known, err := r.Launched(f, c, dir)
	if err == nil && !known && IsScript(c.Argv[0]) {
		err = fmt.Errorf("%s is a script, which may ask for any variable", c.Argv[0])
	}
	return absent, err
}

// Doctor returns what a build would find, with a fix for each fault, and the facts. It probes again,
// whatever a memo holds.
func Doctor(ctx context.Context, r Request) (list []find.Finding, facts plan.Facts) {
	if err := checkTemp(); err != nil {
		return []find.Finding{{Status: find.Fails, What: "temporary files", Text: err.Error()}}, facts
	}
	f, h := newFinder(ctx, r)
	facts = r.collect(f, h)
	if err := ctx.Err(); err != nil {
		return []find.Finding{{Status: find.Fails, Text: err.Error()}}, facts
	}
	add := func(status, what, text string) {
		list = append(list, find.Finding{Status: status, What: what, Text: text})
	}
	list = append(r.Needs.Doctor(f, &facts.Installed), find.Check("C++ compiler", facts.CXX.Error, find.Described(facts.CXX)),
		find.Check("C compiler", facts.CC.Error, find.Described(facts.CC)),
		find.Check("archiver", facts.AR.Error, find.Described(facts.AR)))
	if lto := facts.HostLTO; lto.Error != "" {
		add(find.Warns, "host_lto", lto.Error)
	} else if lto.AR.Path != "" {
		add(find.OK, "host_lto", find.Described(lto.AR))
	}
	if facts.NativeGPU = gpus(ctx, r.Env); len(facts.NativeGPU) == 0 {
		add(find.Warns, "GPU", "none here; that is fine for building, code = [\"native\"] needs one")
	} else {
		add(find.OK, "GPU", toolchain.Range(facts.NativeGPU))
	}
	return list, facts
}

// Unwritable returns why files cannot be created in the folder of the cache, or "".
func Unwritable(dir string) string {
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, "doctor-*"); err == nil {
			f.Close()
			os.Remove(f.Name())
			return ""
		}
	}
	return fmt.Sprintf("%s; set KBUILD_CACHE_DIR to a folder you can write", strings.TrimSpace(err.Error()))
}
