package main

import (
	"strings"

	"github.com/kbuild-dev/kbuild/graph"
	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/plan"
)

// askCheckLink has the links of --check-link planned.
func (cmd buildCmd) askCheckLink(c *cli) error {
	if len(cmd.CheckLink) == 0 {
		return nil
	}
	c.checkLink = &plan.CheckLink{Modules: cmd.Targets}
	for _, name := range cmd.CheckLink {
		code, err := gencode.Parse(name)
		if err != nil {
			return usagef("--check-link: %v", err)
		}
		if code.Kind != gencode.SASS {
			return usagef("--check-link %s: name the GPUs to link for, such as sm_80,sm_90", name)
		}
		c.checkLink.Archs = append(c.checkLink.Archs, code)
	}
	return nil
}

// selectChecks are the modules that names stand for, or all that are checked, and their links.
func (s *session) selectChecks(names []string) ([]graph.ActionID, error) {
	var checks []string
	all := len(names) == 0
	for _, t := range s.graph.Targets {
		checks = append(checks, t.Checks...)
		if all && len(t.Checks) > 0 {
			names = append(names, t.Label)
		}
	}
	for _, name := range names {
		if ids, _ := s.graph.Select([]string{name}); ids != nil && len(s.graph.FindTarget(name)) == 0 {
			return nil, usagef("%s is a file; --check-link wants the names of modules", name)
		}
	}
	if all && len(checks) == 0 {
		return nil, usagef("no module of this project has LTO-IR to link: --check-link %s is for modules with \"ltoir\" in emit", s.cli.checkLinkList())
	}
	return s.selectAll(append(names, checks...))
}

func (c *cli) checkLinkList() string {
	var list []string
	for _, a := range c.checkLink.Archs {
		list = append(list, a.String())
	}
	return strings.Join(list, ",")
}
