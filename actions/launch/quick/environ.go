package quick

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/actions/run"
)

// Environment is the environment of commands, and the part of it that is in keys.
type Environment struct{ All, Key []string }

// Commands returns the environment of commands. Unlike a build from a manifest, it keeps the
// language of the user: the caller of the launcher expects the messages of the compiler.
func Commands() Environment {
	all := slices.DeleteFunc(run.Environ(os.Environ(), nil), func(e string) bool {
		return run.Matters(e, run.Language)
	})
	key := run.Select(all, run.Keyed)
	return Environment{All: append(all, set(run.Names(run.Language))...), Key: key}
}

// set returns the variables among names that are set.
func set(names []string) (env []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Spoken returns the language of the messages of gcc and clang, if it is not that of a build from a
// manifest. It is in the keys of actions that print messages in it. Setting it again changes
// nothing.
func Spoken() (env []string) {
	// LC_CTYPE selects the quotation marks
	for _, category := range []string{"LC_MESSAGES", "LC_CTYPE"} {
		value := cmp.Or(os.Getenv("LC_ALL"), os.Getenv(category), os.Getenv("LANG"))
		if value == "" || value == "C" || value == "POSIX" {
			continue
		}
		env = append(env, category+"="+value)
		if list := os.Getenv("LANGUAGE"); category == "LC_MESSAGES" && list != "" {
			env = append(env, "LANGUAGE="+list)
		}
	}
	return append(env, set(run.Names(run.Look))...)
}

// environ returns the variables that may change the outputs or the messages of a command. PATH is
// among them, and so are the variables of kbuild's own folders.
func environ() []string {
	env := Commands().All
	for _, e := range os.Environ() {
		_, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(e, "KBUILD_") || strings.HasPrefix(e, "CUDA_") ||
			run.Matters(e, run.AMD|run.Launched) || value != "" && run.Matters(e, run.Foreign) {
			env = append(env, e)
		}
	}
	slices.Sort(env)
	return slices.Compact(env)
}
