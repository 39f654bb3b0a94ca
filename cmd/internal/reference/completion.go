package reference

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion holds the completion scripts by shell. They call `kbuild completion words` to complete
// the last word, and fall back to file names. bash breaks words at : and =, and replaces only the
// last piece, so its script passes unbroken words and cuts the other pieces off.
var Completion = map[string]string{
	"bash": `_kbuild() {
  local line=${COMP_LINE:0:COMP_POINT} piece=${COMP_WORDS[COMP_CWORD]} words cut= IFS=' '
  read -ra words <<<"$line"
  [[ $line != *' ' ]] || words+=('')
  [[ $piece != [:=] ]] || piece=
  [[ ${words[-1]} != *"$piece" ]] || cut=${words[-1]%"$piece"}
  IFS=$'\n'
  COMPREPLY=($(kbuild completion words -- "${words[@]:1}" 2>/dev/null))
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -o default -F _kbuild kbuild
`,
	"zsh": `#compdef kbuild
_kbuild() {
  local -a found
  found=(${(f)"$(kbuild completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _kbuild kbuild
`,
	"fish": "complete -c kbuild -a '(kbuild completion words -- (commandline -opc)[2..-1] (commandline -ct))'\n",
}

// Names returns the names in a project that a word of a command line may be: "targets",
// "programs", "tests", "profiles", "archs", or "variables" with an equal sign.
type Names interface{ Names(of string) []string }

// Words returns completions of the last word. There are none if it is a file name or unknown.
func Words(app *kong.Application, words []string, known Names) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	node, flag := app.Node, (*kong.Flag)(nil) // of which the next word is the value
	for _, word := range words[:len(words)-1] {
		isWord := func(n *kong.Node) bool { return n.Name == word }
		f := flagOf(node, word)
		switch {
		case flag != nil:
			flag = nil
		case f != nil && !f.IsBool() && !strings.Contains(word, "="):
			flag = f
		default:
			if child := slices.IndexFunc(node.Children, isWord); child >= 0 {
				node = node.Children[child]
			}
		}
	}
	prefix := ""
	name, value, assigned := strings.Cut(last, "=")
	if flag == nil && assigned && strings.HasPrefix(name, "-") {
		if flag = flagOf(node, name); flag == nil {
			return nil
		}
		prefix, last = name+"=", value
	}
	if flag != nil {
		if i := strings.LastIndexByte(last, ','); i >= 0 { // complete the last element
			prefix, last = prefix+last[:i+1], last[i+1:]
		}
		return starting(prefix, last, valuesOf(flag, known))
	}
	if strings.HasPrefix(last, "-") {
		return starting("", last, optionsOf(node))
	}
	return starting("", last, argumentsOf(app, node, known))
}

// starting returns the candidates with the typed prefix.
func starting(prefix, typed string, all []string) (found []string) {
	for _, word := range all {
		if strings.HasPrefix(word, typed) && !slices.Contains(found, prefix+word) {
			found = append(found, prefix+word)
		}
	}
	return found
}

// flagOf returns the option that a word names, of the command or its parents.
func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

func optionsOf(node *kong.Node) (all []string) {
	for n := node; n != nil; n = n.Parent {
		var short []string
		for _, f := range n.Flags {
			all = append(all, "--"+f.Name)
			if f.Short != 0 {
				short = append(short, "-"+string(f.Short))
			}
		}
		all = append(all, short...)
	}
	return all
}

func valuesOf(f *kong.Flag, known Names) []string {
	switch f.Name {
	case "profile":
		return known.Names("profiles")
	case "arch", "check-link":
		return known.Names("archs")
	case "var":
		return known.Names("variables")
	}
	if f.Enum != "" {
		return strings.Split(f.Enum, ",")
	}
	return nil
}

// argumentsOf returns the subcommands of a command and the words that its arguments accept.
func argumentsOf(app *kong.Application, node *kong.Node, known Names) (all []string) {
	for _, n := range node.Children {
		if !n.Hidden {
			all = append(all, n.Name)
		}
	}
	switch {
	case node == app.Node:
		return append(all, known.Names("targets")...)
	case node.Name == "help":
		for _, n := range app.Children {
			all = append(all, n.Name)
		}
		return append(all, explained()...)
	case node.Name == "explain":
		return explained()
	}
	for _, p := range node.Positional {
		if p.Enum != "" {
			all = append(all, strings.Split(p.Enum, ",")...)
		}
		switch {
		case node.Name == "run" && p.Name == "target":
			all = append(all, known.Names("programs")...)
		case node.Name == "test" && p.Name == "test":
			all = append(all, known.Names("tests")...)
		case p.Name == "targets" || p.Name == "target" || p.Name == "what" || p.Name == "module":
			all = append(all, known.Names("targets")...)
		}
	}
	return all
}
