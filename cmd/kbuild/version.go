package main

import (
	"runtime/debug"
	"strings"
)

type versionCmd struct{}

// toolkits lists the versions that kbuild is tested with and can split. Other versions run unsplit
// where kbuild does not understand their dry run.
const toolkits = "nvcc 11.8, 12.4 and 13.5, hipcc 5.2, 5.7, 7.0 and 7.2, clang 15, 19, 21, 22 and 23 for CUDA"

// Run prints the version, the commit if the go command recorded one, and the tested toolkits.
func (versionCmd) Run(c *cli) error {
	return c.print(map[string]string{"event": "version", "version": version,
		"commit": strings.Trim(commit(), " ()"), "knows": toolkits},
		"kbuild %s%s\nknows %s\n", version, commit(), toolkits)
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	revision := set["vcs.revision"]
	if len(revision) < 12 {
		return ""
	}
	if revision = revision[:12]; set["vcs.modified"] == "true" {
		revision += ", modified"
	}
	return " (" + revision + ")"
}
