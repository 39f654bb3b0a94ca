package discover

import (
	"bytes"
	"strings"
)

// LinkTrace is the parsed output of a linker: the files that it opened or did not find.
type LinkTrace struct {
	Complete bool     // the trace is not truncated
	Read     []string // files, libraries and their scripts among them
	Missing  []string
	Needs    bool   // it searched for a library that another library needs
	Rest     []byte // other output
}

// parseLinkTrace reads the standard output of a link with --verbose by GNU ld (2.40):
//
//	GNU ld (GNU Binutils for Debian) 2.40
//	  Supported emulations: ...
//	using internal linker script:
//	==================================================
//	...
//	==================================================
//	/usr/bin/ld: mode elf_x86_64
//	attempt to open l1/libx.so failed
//	attempt to open l2/libx.so succeeded
//	opened script file l2/libx.so
//	cannot find script file more.ld
//	l2/libx.so
//	l2/../objects/member_of_thin_archive.o
//	libm.so.6 needed by l2/libx.so
//	found libm.so.6 at /lib/x86_64-linux-gnu/libm.so.6
//
// A line that is the name of a file, as isFile reports, names a file that was linked.
func parseLinkTrace(text []byte, isFile func(name string) bool) (t LinkTrace) {
	if !bytes.HasPrefix(text, []byte("GNU ld ")) {
		return LinkTrace{Rest: text}
	}
	const bar = "==================================================\n"
	bars, needed := 0, false
	read := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line == bar {
			bars++
			continue
		}
		if bars%2 == 1 || bars == 0 {
			continue
		}
		name := strings.TrimSuffix(line, "\n")
		failed, found := false, true
		switch {
		case strings.HasPrefix(name, "attempt to open ") && strings.HasSuffix(name, " failed"):
			name, failed = name[len("attempt to open "):len(name)-len(" failed")], true
		case strings.HasPrefix(name, "cannot find script file "):
			name, failed = strings.TrimPrefix(name, "cannot find script file "), true
		case strings.HasPrefix(name, "attempt to open ") && strings.HasSuffix(name, " succeeded"):
			name = name[len("attempt to open ") : len(name)-len(" succeeded")]
		case strings.HasPrefix(name, "opened script file "):
			name = strings.TrimPrefix(name, "opened script file ")
		case strings.HasPrefix(name, "found ") && strings.Contains(name, " at "):
			_, name, _ = strings.Cut(name, " at ")
			t.Needs = t.Needs || !read[name]
			needed = false
		case strings.Contains(name, " needed by "):
			t.Needs = t.Needs || needed // the previous one was not found
			found, needed = false, true
		case strings.Contains(name, ": mode elf"), strings.HasPrefix(name, "using "):
			found = false
		default:
			if found = isFile(name); !found {
				t.Rest = append(t.Rest, line...)
			}
		}
		switch {
		case failed:
			t.Missing = append(t.Missing, name)
		case found && !read[name]:
			read[name] = true
			t.Read = append(t.Read, name)
		}
	}
	t.Complete, t.Needs = bars >= 2, t.Needs || needed
	return t
}
