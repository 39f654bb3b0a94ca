package fatbin

import "fmt"

// readArchive finds the members of a GNU or BSD archive that hold device code.
func readArchive(data []byte) (File, error) {
	f := File{Kind: Archive}
	members, err := splitArchive(data)
	if err != nil {
		return f, err
	}
	for _, member := range members {
		if len(member.content) < 4 || string(member.content[:4]) != "\x7fELF" {
			continue // not an object: an import stub, a text
		}
		object, err := readELF(member.content)
		if err != nil {
			return f, fmt.Errorf("member %s: %w", member.name, err)
		}
		for _, m := range object.Members {
			m.Name = member.name
			f.Members = append(f.Members, m)
		}
	}
	return f, nil
}
