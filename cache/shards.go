package cache

import (
	"hash/maphash"
	"sync"
)

// Shards is a map for concurrent use by many goroutines, split into parts with a lock each. An
// entry takes a third of the memory that sync.Map needs, which matters with one entry per file. The
// zero value is empty.
type Shards[K comparable, V any] struct {
	parts [64]struct {
		mu sync.Mutex
		m  map[K]V
		_  [48]byte // padding: two locks on one cache line would contend
	}
}

var shardSeed = maphash.MakeSeed()

// Load returns the value of a key.
func (s *Shards[K, V]) Load(key K) (v V, ok bool) {
	p := &s.parts[maphash.Comparable(shardSeed, key)%uint64(len(s.parts))]
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok = p.m[key]
	return v, ok
}

// LoadOrStore returns the value of a key, after setting it to v if there was none.
func (s *Shards[K, V]) LoadOrStore(key K, v V) V {
	p := &s.parts[maphash.Comparable(shardSeed, key)%uint64(len(s.parts))]
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.m[key]; ok {
		return old
	}
	if p.m == nil {
		p.m = map[K]V{}
	}
	p.m[key] = v
	return v
}

// Each visits all entries in no particular order. visit must not call methods of s.
func (s *Shards[K, V]) Each(visit func(K, V)) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		for k, v := range p.m {
			visit(k, v)
		}
		p.mu.Unlock()
	}
}
