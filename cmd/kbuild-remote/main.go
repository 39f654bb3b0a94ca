// Command kbuild-remote speaks to a remote cache for kbuild, which starts it: see package
// cache/remote.
package main

import (
	"fmt"
	"os"

	"github.com/kbuild-dev/kbuild/cache/reapi"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "kbuild-remote is started by kbuild --remote; it takes no arguments")
		os.Exit(2)
	}
	if err := reapi.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error: kbuild-remote:", err)
		os.Exit(1)
	}
}
