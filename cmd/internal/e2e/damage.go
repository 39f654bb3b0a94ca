package e2e

import (
	"math/rand/v2"
	"os"
	"testing"
)

// Damages lists ways in which a disk, a power loss or a careless copy damages a file.
var Damages = []struct {
	Name string
	do   func(rng *rand.Rand, text, other []byte) []byte
}{
	{"a flipped bit", func(rng *rand.Rand, text, _ []byte) []byte {
		if len(text) > 0 {
			text[rng.IntN(len(text))] ^= 1 << rng.IntN(8)
		}
		return text
	}},
	{"a lost end", func(rng *rand.Rand, text, _ []byte) []byte { return text[:rng.IntN(len(text)+1)] }},
	{"a lost content", func(*rand.Rand, []byte, []byte) []byte { return nil }},
	{"zeros", func(_ *rand.Rand, text, _ []byte) []byte { return make([]byte, len(text)) }},
	{"the content of another", func(_ *rand.Rand, _, other []byte) []byte { return other }},
}

// Damage damages a file in one of these ways.
func Damage(t *testing.T, rng *rand.Rand, name, other string, how int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	donor, _ := os.ReadFile(other)
	os.Remove(name) // it may be read-only
	if err := os.WriteFile(name, Damages[how].do(rng, text, donor), 0o666); err != nil {
		t.Fatal(err)
	}
}
