package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/kbuild-dev/kbuild/cmd/internal/reference"
	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/hcl/manifest"
)

type completionCmd struct {
	Shell string   `arg:"" optional:"" enum:"bash,zsh,fish,words" default:"bash" help:"bash, zsh or fish; or words, which says what the last of WORD may become."`
	Words []string `arg:"" optional:"" name:"word" help:"A command line, without kbuild itself."`
}

// Run prints the completion script, or the words that such a script requests.
func (cmd completionCmd) Run(c *cli, parser *kong.Kong) error {
	if cmd.Shell != "words" {
		_, err := fmt.Fprint(c.out, reference.Completion[cmd.Shell])
		return err
	}
	names := &projectNames{options: c.ofWords(cmd.Words).workspace().Manifest}
	if found := reference.Words(parser.Model, cmd.Words, names); len(found) > 0 {
		fmt.Fprintln(c.out.Paths(), strings.Join(found, "\n"))
	}
	return nil
}

// projectNames are the names that the project of a command line defines. It has none if the
// manifest cannot be read: completion must not print errors.
type projectNames struct {
	options manifest.Options
	project *manifest.Project // nil until a name is needed
}

// Names implements reference.Names.
func (n *projectNames) Names(of string) (names []string) {
	if n.project == nil {
		n.project, _ = manifest.Load(n.options)
	}
	switch p := n.project; of {
	case "targets": // also the base names of instances
		for _, t := range p.Targets {
			names = append(names, t.Label(), t.Name, string(t.Kind)+"."+t.Base, t.Base)
			names = append(names, graph.Folders(t.Name)...)
		}
		for _, t := range p.Tests {
			names = append(names, "test."+t.Name)
		}
		for _, g := range p.Groups {
			names = append(names, g.Name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	case "programs":
		for _, t := range p.Targets {
			if t.Kind == manifest.Executable {
				names = append(names, t.Name, t.Label())
			}
		}
	case "tests": // and programs that have tests
		for _, t := range p.Tests {
			names = append(names, meantBy(t)...)
		}
	case "profiles":
		names = p.Profiles
	case "archs": // of the manifest, then those that current toolkits support
		for _, t := range p.Targets {
			for _, code := range t.Gencode.Code {
				if code.Kind == gencode.SASS {
					names = append(names, code.String())
				}
			}
		}
		names = append(names, strings.Fields("sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_90a sm_100 "+
			"sm_100f sm_103 sm_110 sm_120 sm_120f sm_121")...)
	case "variables":
		for _, v := range p.Variables {
			names = append(names, v.Name+"=")
		}
	}
	return names
}

// ofWords returns a cli with the folder, manifest and build tree that the words select.
func (c *cli) ofWords(words []string) *cli {
	of := &cli{Dir: c.Dir, File: c.File, out: c.out, err: c.err}
	set := map[string]*string{"-C": &of.Dir, "--dir": &of.Dir, "-f": &of.File, "--file": &of.File, "--build-dir": &of.BuildDir}
	for i, word := range words {
		name, value, assigned := strings.Cut(word, "=")
		if !assigned && i+1 < len(words) {
			value = words[i+1]
		}
		if to := set[name]; to != nil && value != "" && i+1 < len(words) {
			*to = value
		}
	}
	return of
}
