package reference

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Commands writes the commands with their options, the global options, the environment variables
// and the exit statuses.
func Commands(p page, app *kong.Application) {
	p.section(2, "Commands")
	for _, c := range app.Leaves(true) {
		p.section(3, c.FullPath())
		p.text("`" + usage(c) + "`")
		p.text(c.Help)
		for _, a := range c.Positional {
			p.item("`"+argument(a)+"`", a.Help)
		}
		for _, f := range c.Flags {
			p.item("`"+option(f)+"`", f.Help)
		}
	}
	p.section(2, "Options of all commands")
	for _, f := range app.Flags {
		p.item("`"+option(f)+"`", f.Help)
	}
	p.section(2, "Environment")
	for _, v := range environment {
		p.item("`"+v[0]+"`", v[1])
	}
	p.section(2, "Exit status")
	for _, s := range statuses {
		p.item(s[0], s[1])
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
	{"KBUILD_REMOTE", "A cache on another machine, if `--remote` is not given; an empty value is none, whatever the manifest names."},
	{"KBUILD_REMOTE_CA", "Certificates by which the server of a remote cache is believed, besides the system's."},
	{"KBUILD_REMOTE_CERT", "The certificate of the client for a remote cache; `KBUILD_REMOTE_KEY` is its key."},
	{"KBUILD_REMOTE_CREDENTIAL_HELPER", "A program that says who asks a remote cache, of Bazel's protocol."},
	{"KBUILD_REMOTE_HOSTS", "Servers that credentials are sent to, HOST:PORT separated by commas. One that the manifest names gets them only if it is listed."},
	{"KBUILD_REMOTE_EXEC", "Whatever it holds: passes run on other machines too, as with `--remote-exec`."},
	{"KBUILD_REMOTE_KEY", "See `KBUILD_REMOTE_CERT`."},
	{"KBUILD_REMOTE_PASSWORD_FILE", "A file with USER:PASSWORD for a remote cache."},
	{"KBUILD_REMOTE_PATIENCE", "For how long a build may wait for a remote cache in vain, beyond what it has of it (default: 1.5s)."},
	{"KBUILD_REMOTE_TOKEN_FILE", "A file with a bearer token for a remote cache."},
	{"KBUILD_REMOTE_READ_ONLY", "Whatever it holds: nothing is sent there, as with `--remote-read-only`."},
	{"KBUILD_CACHE_SIZE", "What `kbuild cache gc` keeps, if `--max-size` is not given."},
	{"KBUILD_BASE_DIR", "`kbuild cc`: the folder of the checkout, which may be at another place elsewhere (default: the outermost git repository around the folder of the command, if it has an origin)."},
	{"KBUILD_JOBS", "How many processes all kbuild processes of the user run at once, and the default of `-j` (default: the processors that there are)."},
	{"KBUILD_MEM", "How much memory they plan together, and the default of `--mem` (default: what is available when nothing runs)."},
	{"KBUILD_BROKER", "0: processors and memory are not shared with other kbuild processes."},
	{"XDG_RUNTIME_DIR, TMPDIR", "Where the file is by which they are shared."},
	{"KBUILD_SAFE_DIRECTORIES", "Folders whose manifests are trusted although other users may change them, separated by colons: `/a`, `/a/*` for all folders below, or `*`."},
	{"XDG_CONFIG_HOME", "Where the user's configuration is, `kbuild/config.hcl` (default: `~/.config`)."},
	{"KBUILD_TOOLKITS", "Where `kbuild toolkit install` installs (default: `toolkits` in the action cache)."},
	{"KBUILD_PIP", "The command that `kbuild toolkit` runs as pip (default: `python3 -m pip`)."},
	{"KBUILD_VAR_NAME", "The value of the variable NAME of the manifest."},
	{"MAKEFLAGS", "Under make: its jobserver, and the options `-n`, `-k` and `-s`."},
	{"CUDA_HOME, ROCM_PATH, PATH", "Where toolkits and compilers are looked for. Relative and empty entries of PATH are dropped, also for commands."},
	{"NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "Whether there are colours, if `--color` is not given."},
}

var statuses = [][2]string{
	{"0", "Done."},
	{"1", "The build failed, or something that a command was to do; `fmt --check` found a file that is not formatted, `cache verify --trace` something that is in no record; or standard output could not be written."},
	{"2", "The command line or the manifest is wrong."},
	{"3", "A requirement failed: of doctor, toolkit, precompile --verify, cache verify, cache export or cache import."},
	{"130", "Interrupted, by Ctrl-C, SIGTERM or SIGHUP."},
	{"others", "Of `kbuild cc`: it ends as its compiler ends, by a signal too."},
}

// CommandList writes the generated part of docs/commands.md.
func CommandList(w io.Writer, app *kong.Application) {
	m := &markdown{w: w}
	Commands(m, app)
	m.gap()
}
