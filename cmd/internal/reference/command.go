package reference

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Commands writes the commands with their options, the global options, the environment variables
// and the exit statuses.
func Commands(p Page, app *kong.Application) {
	p.Section(2, "Commands")
	for _, c := range app.Leaves(true) {
		p.Section(3, c.FullPath())
		p.Text("`" + usage(c) + "`")
		p.Text(c.Help)
		for _, a := range c.Positional {
			p.Item("`"+argument(a)+"`", a.Help)
		}
		for _, f := range c.Flags {
			p.Item("`"+option(f)+"`", f.Help)
		}
	}
	p.Section(2, "Options of all commands")
	for _, f := range app.Flags {
		p.Item("`"+option(f)+"`", f.Help)
	}
	p.Section(2, "Environment")
	for _, v := range environment {
		p.Item("`"+v[0]+"`", v[1])
	}
	p.Section(2, "Exit status")
	for _, s := range statuses {
		p.Item(s[0], s[1])
	}
}

// usage returns the synopsis of a command.
func usage(c *kong.Node) string {
	words := []string{c.FullPath()}
	for _, f := range c.Flags {
		words = append(words, "["+option(f)+"]")
	}
	for _, a := range c.Positional {
		words = append(words, argument(a))
	}
	return strings.Join(words, " ")
}

func argument(a *kong.Positional) string {
	name := strings.ToUpper(a.Name)
	if a.IsSlice() {
		name = strings.TrimSuffix(name, "S") + "..."
	}
	if !a.Required {
		name = "[" + name + "]"
	}
	return name
}

func option(f *kong.Flag) string {
	name := "--" + f.Name
	if f.Short != 0 {
		name = "-" + string(f.Short) + ", " + name
	}
	if !f.IsBool() && !f.IsCounter() {
		name += "=" + strings.Trim(f.FormatPlaceHolder(), `"`)
	}
	return name
}

var environment = [][2]string{
	{"KBUILD_CACHE_DIR", "The action cache, if `--cache-dir` is not given."},
	{"KBUILD_REMOTE", "The remote cache, if `--remote` is not given. An empty value disables the one that the manifest names."},
	{"KBUILD_REMOTE_CA", "A file of certificates to trust for a remote cache, in addition to the system's."},
	{"KBUILD_REMOTE_CERT", "The client certificate for a remote cache; `KBUILD_REMOTE_KEY` is its key."},
	{"KBUILD_REMOTE_CREDENTIAL_HELPER", "A program that prints credentials for a remote cache, in Bazel's credential helper protocol."},
	{"KBUILD_REMOTE_HOSTS", "The servers that credentials are sent to: HOST:PORT, separated by commas. A server that the manifest names must be listed to get them."},
	{"KBUILD_REMOTE_EXEC", "If not empty, passes run on other machines too, as with `--remote-exec`."},
	{"KBUILD_REMOTE_KEY", "See `KBUILD_REMOTE_CERT`."},
	{"KBUILD_REMOTE_PASSWORD_FILE", "A file with USER:PASSWORD for a remote cache."},
	{"KBUILD_REMOTE_PATIENCE", "How much longer a build may wait for a remote cache than the cache has saved it (default: 1.5s)."},
	{"KBUILD_REMOTE_TOKEN_FILE", "A file with a bearer token for a remote cache."},
	{"KBUILD_REMOTE_READ_ONLY", "If not empty, nothing is uploaded, as with `--remote-read-only`."},
	{"KBUILD_CACHE_SIZE", "The size that `kbuild cache gc` shrinks the cache to, if `--max-size` is not given."},
	{"KBUILD_BASE_DIR", "`kbuild cc`: the folder of the checkout. Checkouts in different folders share cache entries (default: the outermost git repository around the working directory, if it has an origin)."},
	{"KBUILD_JOBS", "How many processes all builds of the user run concurrently, and the default of `-j` (default: the number of processors)."},
	{"KBUILD_MEM", "How much memory all builds of the user plan for, and the default of `--mem` (default: what is available when nothing runs)."},
	{"KBUILD_BROKER", "0: do not share processors and memory with other kbuild processes."},
	{"XDG_RUNTIME_DIR, TMPDIR", "The folder of the file through which kbuild processes share processors and memory."},
	{"KBUILD_SAFE_DIRECTORIES", "Folders whose manifests are trusted although other users may change them, separated by colons: `/a`, `/a/*` for all folders below, or `*`."},
	{"XDG_CONFIG_HOME", "The folder of the user's configuration `kbuild/config.hcl` (default: `~/.config`)."},
	{"KBUILD_TOOLKITS", "Where `kbuild toolkit install` installs (default: `toolkits` in the action cache)."},
	{"KBUILD_PIP", "The command that `kbuild toolkit` runs as pip (default: `python3 -m pip`)."},
	{"KBUILD_VAR_NAME", "The value of the variable NAME of the manifest."},
	{"MAKEFLAGS", "Under make: its jobserver, and the options `-n`, `-k` and `-s`."},
	{"CUDA_HOME, ROCM_PATH, PATH", "Where to find toolkits and compilers. Relative and empty entries of PATH are dropped, also for commands."},
	{"NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "Whether to use colours, if `--color` is not given."},
}

var statuses = [][2]string{
	{"0", "Done."},
	{"1", "The build or the command failed; `fmt --check` found an unformatted file; `cache verify --trace` found an access that no record has; or standard output could not be written."},
	{"2", "The command line or the manifest is wrong."},
	{"3", "A requirement of doctor, toolkit, precompile --verify, cache verify, cache export or cache import failed."},
	{"130", "Interrupted, by Ctrl-C, SIGTERM or SIGHUP."},
	{"others", "`kbuild cc` ends as its compiler does, also by a signal."},
}
