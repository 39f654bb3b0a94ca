package discover

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
	var texts []string
	var l loader
	l.read(filepath.Join(dir, "conf"), func(_ string, text []byte) { texts = append(texts, string(text)) })
	if want := []string{"/a\n", "/b\ninclude ../conf\n"}; len(texts) != 3 || !slices.Equal(texts[1:], want) {
		t.Errorf("it takes in %q, want %q after the first", texts, want)
	}
	for _, name := range []string{"conf", "d", "d/a.conf", "d/b.conf", "."} {
		if !slices.Contains(l.paths, filepath.Join(dir, name)) {
			t.Errorf("%s is not among %q", name, l.paths)
		}
	}
}
