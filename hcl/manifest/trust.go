package manifest

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kbuild-dev/kbuild/cache/regular"
)

// A manifest contains commands that run as the user who builds it, and kbuild searches the parent
// folders for one. Without a check, a kernels.hcl in /tmp would run for everybody who calls kbuild
// below it (CVE-2022-24765 of git). So kbuild refuses a manifest that another user owns or may
// change.
//
// The user and root are trusted; with sudo, also the user who called it. Root trusts only root,
// like git: a root shell in another user's checkout is an attractive target. A file's group may
// have write access if it is the owner's own group, as OpenSSH allows where users have their own
// groups (umask 002), or root's group. A sticky folder such as /tmp protects existing files, but
// anybody may add some, so a manifest in it must belong to the user.
//
// The check covers:
//   - the manifest, kernels.local.hcl, and every imported manifest, each with its folder
//   - the folders that were searched for the manifest
//   - the owner of the build tree, because its database has commands that run without the
//     manifest
//
// The parent folders of the manifest's folder are not checked. A user who may rename in them can
// replace the project with another folder, but then owns that folder, so the check refuses it.
//
// The user allows projects with safe_directories in config.hcl, or with KBUILD_SAFE_DIRECTORIES.

// EnvSafe is the environment variable with the folders whose manifests are trusted.
const EnvSafe = "KBUILD_SAFE_DIRECTORIES"

// Untrusted returns an error if another user controls the manifest of opts. It returns nil if none
// does or there is no manifest. Null builds call it, so it costs only a few stat calls.
func Untrusted(opts Options) *Diagnostic {
	_, file := opts.place()
	if _, err := os.Lstat(file); err != nil || opts.FS != nil || opts.Source != nil {
		return nil
	}
	root, build := Locate(opts)
	if !filepath.IsAbs(build) {
		build = filepath.Join(root, build)
	}
	t := opts.trust()
	fault := t.file(file)
	for dir := filepath.Join(root, opts.Below); fault == "" && dir != root; dir = filepath.Dir(dir) {
		fault = t.folder(dir)
	}
	for _, dir := range []string{build, filepath.Join(build, ".kbuild")} {
		var st unix.Stat_t
		if fault == "" && unix.Stat(dir, &st) == nil {
			fault = t.owner(dir, &st)
		}
	}
	return opts.refuse(root, fault)
}

// untrusted is Untrusted for a further file of a project.
func (l *sourceTree) untrusted(file string) *Diagnostic {
	if l.opts.FS != nil {
		return nil
	}
	return l.opts.refuse(l.project.Root, l.opts.trust().file(filepath.Join(l.project.Root, file)))
}

// refuse returns the error for a fault, unless fault is "" or the user allows the project.
func (o Options) refuse(root, fault string) *Diagnostic {
	if fault == "" {
		return nil
	}
	safe, config, diag := o.safeFolders()
	if diag != nil || isSafe(root, safe) {
		return diag
	}
	return &Diagnostic{Summary: "refusing this project: " + fault, Detail: fmt.Sprintf(
		"If you trust everybody who can change it, write safe_directories = [%q] into %s, "+
			"or set %s=%[1]s.",
		root, config, EnvSafe)}
}

// trust lists the trusted users, starting with the one that kbuild runs as.
type trust []uint32

func (o Options) trust() trust {
	me := uint32(os.Geteuid())
	if me == 0 && o.Env != nil {
		caller, _ := o.Env("SUDO_UID")
		if uid, err := strconv.ParseUint(caller, 10, 32); err == nil {
			return trust{me, uint32(uid)}
		}
	}
	return trust{me, 0}
}

// file returns what is wrong with a manifest or its folder; "" if nothing is.
func (t trust) file(name string) (fault string) {
	dir := filepath.Dir(name)
	var link, file, folder unix.Stat_t
	if unix.Lstat(name, &link) != nil || unix.Stat(name, &file) != nil ||
		unix.Stat(dir, &folder) != nil {
		return "" // Load reports that it cannot be read
	}
	fault = cmp.Or(t.owner(name, &link), t.owner(name, &file), t.writers(name, &file), t.folder(dir))
	if fault == "" && folder.Mode&0o002 != 0 && link.Uid == 0 && t[0] != 0 {
		fault = fmt.Sprintf("%s belongs to root and lies in %s, where every user may put files",
			name, dir)
	}
	return fault
}

// folder returns what is wrong with a folder of manifests; "" if nothing is.
func (t trust) folder(name string) (fault string) {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil {
		return ""
	}
	fault = t.owner(name, &st)
	if fault == "" && st.Mode&unix.S_ISVTX == 0 {
		fault = t.writers(name, &st)
	}
	return fault
}

// owner returns a fault if an untrusted user owns a path.
func (t trust) owner(name string, st *unix.Stat_t) (fault string) {
	if slices.Contains(t, st.Uid) {
		return ""
	}
	return fmt.Sprintf("%s belongs to %s, and kbuild runs as %s", name, userName(st.Uid),
		userName(t[0]))
}

// writers returns a fault if users other than its owner may write a path.
func (t trust) writers(name string, st *unix.Stat_t) (fault string) {
	others := "every user"
	if st.Mode&0o002 == 0 {
		if st.Mode&0o020 == 0 || st.Gid == 0 || st.Gid == st.Uid {
			return ""
		}
		others = fmt.Sprintf("the group %d", st.Gid)
		if group, err := user.LookupGroupId(strconv.Itoa(int(st.Gid))); err == nil {
			owner, err := user.LookupId(strconv.Itoa(int(st.Uid)))
			if err == nil && owner.Username == group.Name {
				return ""
			}
			others = "the group " + group.Name
		}
	}
	return fmt.Sprintf("%s may be changed by %s (chmod go-w ends that)", name, others)
}

// userName returns a user's name for a message.
func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		return fmt.Sprintf("%s (user %d)", u.Username, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// safeFolders returns the folders that the user allows, and the configuration file for more of
// them.
func (o Options) safeFolders() (safe []string, config string, fault *Diagnostic) {
	env := func(name string) (value string) {
		if o.Env != nil {
			value, _ = o.Env(name)
		}
		return value
	}
	safe = filepath.SplitList(env(EnvSafe))
	config = cmp.Or(env("XDG_CONFIG_HOME"), filepath.Join(env("HOME"), ".config"))
	config = filepath.Join(config, "kbuild", "config.hcl")
	src, err := regular.ReadAtMost(config, MaxSource)
	if err != nil || !filepath.IsAbs(config) { // a relative path would be in the project
		return safe, config, nil
	}
	l := newLoader(Options{})
	b := &block{kind: "the configuration", body: l.parse(config, src), misspelt: map[string]bool{},
		schema: &Block{Name: "config.hcl", Attributes: []Attribute{{Name: "safe_directories", Type: StringsType}}}}
	l.checkAttrs(b)
	l.checkNested(b)
	l.resolveBlock(b, b)
	var set struct {
		Folders []string `attr:"safe_directories"`
	}
	l.reader(b, nil).decode(&set)
	if l.diags.HasErrors() {
		return nil, config, &l.diags[0]
	}
	return append(safe, set.Folders...), config, nil
}

// isSafe reports whether a folder is in a list, or below one that ends in /*.
func isSafe(root string, safe []string) bool {
	names := []string{filepath.Clean(root)}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		names = append(names, real)
	}
	return slices.ContainsFunc(safe, func(s string) bool {
		if s == "*" {
			return true
		}
		above, below := strings.CutSuffix(s, "/*")
		return slices.ContainsFunc(names, func(name string) bool {
			inside := below && strings.HasPrefix(name, strings.TrimSuffix(above, "/")+"/")
			return filepath.IsAbs(s) && (inside || name == filepath.Clean(s))
		})
	})
}
