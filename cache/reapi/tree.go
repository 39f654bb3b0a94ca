package reapi

import (
	"fmt"
	"path"
	"slices"
	"strings"

	re "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"

	"github.com/kbuild-dev/kbuild/cache/remote"
)

// folder is a folder of a command's inputs.
type folder struct {
	files   map[string]*re.FileNode
	folders map[string]*folder
}

func newFolder() *folder {
	return &folder{map[string]*re.FileNode{}, map[string]*folder{}}
}

// inputTree returns the input root of a command: one message for each folder, which names its files
// and the messages of its subfolders. root is the Blob of the root folder's message.
func inputTree(cmd *remote.Command) (root Blob, messages [][]byte, err error) {
	top := newFolder()
	for _, dir := range cmd.Folders {
		if _, err := top.folder(dir); err != nil {
			return root, nil, err
		}
	}
	for _, in := range cmd.Inputs {
		dir, err := top.folder(path.Dir(in.Path))
		if err != nil {
			return root, nil, err
		}
		name := path.Base(in.Path)
		if _, taken := dir.folders[name]; taken || dir.files[name] != nil {
			return root, nil, fmt.Errorf("two inputs are called %s", in.Path)
		}
		dir.files[name] = &re.FileNode{Name: name, Digest: digestOf(Blob{in.Digest, in.Size}), IsExecutable: in.Exec}
	}
	root, messages = top.encode(nil)
	return root, messages, nil
}

// folder returns the folder with this name, and creates it if necessary.
func (f *folder) folder(name string) (*folder, error) {
	if name = path.Clean(name); name == "." {
		return f, nil
	}
	if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return nil, fmt.Errorf("%s is not below the folder of the command", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if f.files[part] != nil {
			return nil, fmt.Errorf("%s is a file and a folder", name)
		}
		if f.folders[part] == nil {
			f.folders[part] = newFolder()
		}
		f = f.folders[part]
	}
	return f, nil
}

// encode appends the messages of f and its subfolders, with that of f last.
func (f *folder) encode(messages [][]byte) (Blob, [][]byte) {
	m := &re.Directory{}
	for _, file := range f.files {
		m.Files = append(m.Files, file)
	}
	for name, sub := range f.folders {
		var b Blob
		b, messages = sub.encode(messages)
		m.Directories = append(m.Directories, &re.DirectoryNode{Name: name, Digest: digestOf(b)})
	}
	slices.SortFunc(m.Files, func(a, b *re.FileNode) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Directories, func(a, b *re.DirectoryNode) int { return strings.Compare(a.Name, b.Name) })
	text := marshal(m)
	return BlobOf(text), append(messages, text)
}

// marshal returns the same bytes for equal messages.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}
