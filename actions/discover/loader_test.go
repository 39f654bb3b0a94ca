package discover

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbuild-dev/kbuild/cache"
)

func TestLoaderFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o777); err != nil {
		t.Fatal(err)
	}
	write("conf", "# first\ninclude d/*.conf "+dir+"/more # and more\n/lib/x\n")
	write("d/b.conf", "/b\ninclude ../conf\n")
	write("d/a.conf", "/a\n")
	write("d/c.other", "/c\n")
	l := loader{build: noBuild{}}
	l.read(filepath.Join(dir, "conf"))
	if texts := string(l.texts); strings.Count(texts, dir) != 4 || !strings.Contains(texts, "a.conf 3\n/a\n") || !strings.Contains(texts, "b.conf 19\n/b\ninclude ../conf\n") {
		t.Errorf("it takes in %q", texts)
	}
	for _, name := range []string{"conf", "d", "d/a.conf", "d/b.conf", "."} {
		if !slices.Contains(l.paths, filepath.Join(dir, name)) {
			t.Errorf("%s is not among %q", name, l.paths)
		}
	}
}

// noBuild is a Build without files.
type noBuild struct{ Build }

func (noBuild) Digest(string) (cache.Digest, error) { return cache.Digest{}, nil }
