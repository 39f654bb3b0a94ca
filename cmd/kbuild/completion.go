package main

import (
	"fmt"
	"strings"
)

type completionCmd struct {
	Shell string `arg:"" optional:"" enum:"bash,zsh,fish,targets" default:"bash" help:"bash, zsh or fish."`
}

const commands = "build plan graph why precompile inspect cache compdb fmt clean doctor init completion version"

const flags = "-C -f -j -k -l --mem -n -v -q --arch --profile --var --build-dir --cache-dir --no-cache --no-wait --json --trace --progress --color --help"

// Run writes the script. `kbuild completion targets` is what the scripts call for target names.
func (cmd completionCmd) Run(c *cli) error {
	switch cmd.Shell {
	case "targets":
		w := c.workspace()
		p, err := w.Plan()
		if err != nil {
			return nil // a shell that completes must not be told off
		}
		fmt.Fprintln(c.pathsOut(), strings.Join(p.Graph.Names(), "\n"))
	case "bash":
		fmt.Fprintf(c.out, `_kbuild() {
  local cur=${COMP_WORDS[COMP_CWORD]}
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "%s" -- "$cur"))
  else COMPREPLY=($(compgen -W "%s $(kbuild completion targets 2>/dev/null)" -- "$cur")); fi
}
complete -o default -F _kbuild kbuild
`, flags, commands)
	case "zsh":
		fmt.Fprintf(c.out, `#compdef kbuild
_kbuild() { compadd -- %s %s ${(f)"$(kbuild completion targets 2>/dev/null)"}; _files }
compdef _kbuild kbuild
`, commands, flags)
	case "fish":
		fmt.Fprintf(c.out, "complete -c kbuild -a '%s (kbuild completion targets 2>/dev/null)'\n", commands)
	}
	return nil
}
