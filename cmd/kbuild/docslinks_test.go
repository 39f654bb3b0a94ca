package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	codeBlock    = regexp.MustCompile("(?m)^```(?s:.*?)^```|^    .*")
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)`)
	linkInText   = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	notInSlug    = regexp.MustCompile(`[^\pL\pN _-]`)
)

// TestDocsLinks checks that relative links of the documentation lead to files that exist, and
// their anchors to headings.
func TestDocsLinks(t *testing.T) {
	const root = "../.."
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	read := func(page string) string {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		return codeBlock.ReplaceAllString(string(text), "")
	}
	anchors := map[string]map[string]bool{} // by page
	for _, page := range pages {
		anchors[page] = slugs(read(page))
	}
	for _, page := range pages {
		for _, m := range markdownLink.FindAllStringSubmatch(read(page), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link to %s: no such file", page, m[1])
			} else if anchor != "" && !anchors[to][anchor] {
				t.Errorf("%s: the link to %s: no such heading", page, m[1])
			}
		}
	}
}

// slugs returns the anchors that GitHub makes of the headings of a page. The second of two equal
// ones ends in -1.
func slugs(text string) map[string]bool {
	all, times := map[string]bool{}, map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		words := strings.ToLower(linkInText.ReplaceAllString(strings.TrimSpace(m[1]), "$1"))
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(words, ""), " ", "-")
		n := times[slug]
		times[slug]++
		if n > 0 {
			slug += "-" + strconv.Itoa(n)
		}
		all[slug] = true
	}
	return all
}

func TestDocsSlugs(t *testing.T) {
	got := slugs("# One\n## Does it link? `--check-link`\n## In kernels.hcl\n" +
		"## [a_b](x.md), NVIDIA's\n## One\n")
	for _, want := range []string{"one", "does-it-link---check-link", "in-kernelshcl",
		"a_b-nvidias", "one-1"} {
		if !got[want] {
			t.Errorf("no %s in %v", want, got)
		}
	}
}
