// Command kbuild-remote talks to a remote cache on behalf of kbuild, which starts it. It only
// serves requests, and knows nothing of builds. See package cache/reapi.
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
