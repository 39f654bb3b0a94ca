package graph

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fill gives every field, and every field of those, a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) * -3)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, n)
			fill(val, n)
			v.SetMapIndex(key, val)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	}
}

// use is a path that an action depends on.
type use struct {
	path string
	id   ActionID
}

func packed(t *testing.T, g *Graph, ids []ActionID, uses []use) *Packed {
	t.Helper()
	if err := g.Seal(); err != nil {
		t.Fatal(err)
	}
	k := g.Packer(ids)
	for _, u := range uses {
		k.Use(u.path, u.id)
	}
	data, err := k.Pack([]byte("meta"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An action comes back with every field, whatever fields there will be.
func TestPackKeepsEveryField(t *testing.T) {
	full, n := &Action{}, 0
	fill(reflect.ValueOf(full).Elem(), &n)
	g := &Graph{}
	g.Add(full)
	g.Add(&Action{})
	p := packed(t, g, []ActionID{0, 1}, nil)
	for id, want := range g.Actions {
		if diff := cmp.Diff(want, p.Action(ActionID(id)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("action %d (-packed +unpacked):\n%s", id, diff)
		}
	}
	if string(p.Meta()) != "meta" || p.Len() != 2 {
		t.Errorf("meta %q, %d actions", p.Meta(), p.Len())
	}
}

// TestPackedRandom holds what a packed graph answers to what the graph does.
func TestPackedRandom(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := &Graph{}
		for i := range 1 + rng.IntN(40) {
			a := &Action{Name: fmt.Sprint(i), Work: Work{Pass: &CompilerPass{}}, Intermediate: rng.IntN(2) == 0, Outputs: []string{fmt.Sprint("out", i)}}
			if !a.Intermediate && rng.IntN(4) == 0 {
				a.Kind = Manifest
			}
			for range rng.IntN(4) {
				if i > 0 {
					list := []*[]string{&a.Inputs, &a.OrderOnly, &a.Work.Pass.DiagnosticInputs}[rng.IntN(3)]
					*list = append(*list, fmt.Sprint("out", rng.IntN(i)))
				}
			}
			g.Add(a)
		}
		var uses []use
		for range rng.IntN(60) {
			uses = append(uses, use{fmt.Sprint("file", rng.IntN(10)), ActionID(rng.IntN(len(g.Actions)))})
		}
		if err := g.Seal(); err != nil {
			t.Fatal(err)
		}
		ids := g.Closure([]ActionID{ActionID(rng.IntN(len(g.Actions))), ActionID(rng.IntN(len(g.Actions)))})
		p := packed(t, g, ids, slices.Clone(uses))
		back := func(list []ActionID) []ActionID {
			var out []ActionID
			for _, i := range list {
				out = append(out, ids[i])
			}
			return out
		}
		for i, id := range ids {
			got, ok := p.Producer(g.Actions[id].Outputs[0])
			if !ok || got != ActionID(i) || p.Action(got).Name != g.Actions[id].Name {
				t.Fatalf("seed %d: the producer of %s is %d, %v", seed, g.Actions[id].Outputs[0], got, ok)
			}
			for k, dep := range ids {
				if got, want := p.Needs(ActionID(i), ActionID(k)), g.Needs(id, dep); got != want {
					t.Fatalf("seed %d: %d needs %d: %v, want %v", seed, id, dep, got, want)
				}
			}
			up, all := p.Affected([]ActionID{ActionID(i)})
			var wantUp, manifests []ActionID
			for _, other := range ids {
				if other == id || g.Needs(other, id) {
					wantUp = append(wantUp, other)
					if g.Actions[other].Kind == Manifest {
						manifests = append(manifests, other)
					}
				}
			}
			told := g.Closure(manifests)
			if diff := cmp.Diff(wantUp, back(up)); diff != "" {
				t.Fatalf("seed %d: %d affects (-want +got):\n%s", seed, id, diff)
			}
			for _, a := range back(all) {
				for _, d := range g.Deps(a) {
					if g.Actions[d].Intermediate && !slices.Contains(back(all), d) {
						t.Fatalf("seed %d: %d comes without its part %d", seed, a, d)
					}
				}
				if !slices.Contains(wantUp, a) && !g.Actions[a].Intermediate && !slices.Contains(told, a) {
					t.Fatalf("seed %d: %d comes along, is no part, and no manifest tells of it", seed, a)
				}
			}
			for _, a := range told {
				if !slices.Contains(back(all), a) {
					t.Fatalf("seed %d: a manifest comes without %d", seed, a)
				}
			}
		}
		if _, ok := p.Producer("nobody's"); ok {
			t.Fatal("a file that nobody writes has a producer")
		}
		for f := range 10 {
			var want []ActionID
			for _, u := range uses {
				if u.path == fmt.Sprint("file", f) && slices.Contains(ids, u.id) && !slices.Contains(want, u.id) {
					want = append(want, u.id)
				}
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, back(p.Users(fmt.Sprint("file", f)))); diff != "" {
				t.Fatalf("seed %d: users of file%d (-want +got):\n%s", seed, f, diff)
			}
		}
	}
}

// A graph of another version is not opened. The checksum of the database finds damage.
func TestUnpackOtherVersion(t *testing.T) {
	for _, data := range []string{"", "kbuild graph 7\r\n", "kbuild graph 7\r\nxxxxxxxxxxxxxxxx"} {
		if _, err := Unpack([]byte(data)); err == nil {
			t.Errorf("%q is taken for a graph", data)
		}
	}
}
