package reference

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion scripts offer commands, options and what `kbuild completion targets` prints. Each gets the commands and the options.
var completions = map[string]string{
	"bash": `_kbuild() {
  local cur=${COMP_WORDS[COMP_CWORD]}
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "%[2]s" -- "$cur"))
  else COMPREPLY=($(compgen -W "%[1]s $(kbuild completion targets 2>/dev/null)" -- "$cur")); fi
}
complete -o default -F _kbuild kbuild
`,
	"zsh": `#compdef kbuild
_kbuild() { compadd -- %[1]s %[2]s ${(f)"$(kbuild completion targets 2>/dev/null)"}; _files }
compdef _kbuild kbuild
`,
	"fish": "complete -c kbuild -a '%[1]s (kbuild completion targets 2>/dev/null)'%.0[2]s\n",
}

// Completion writes the completion script of a shell.
func Completion(w io.Writer, shell string, app *kong.Application) error {
	var commands, options []string
	for _, c := range app.Children {
		commands = append(commands, c.Name)
	}
	for _, f := range app.Flags {
		if f.Short != 0 {
			options = append(options, "-"+string(f.Short))
		}
		options = append(options, "--"+f.Name)
	}
	_, err := fmt.Fprintf(w, completions[shell], strings.Join(commands, " "), strings.Join(options, " "))
	return err
}
