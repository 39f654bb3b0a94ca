package cache

import (
	"hash/maphash"
	"sync"
)

// Shards is a map for concurrent use that many goroutines read and write: it has a lock for each of
// some parts. An entry takes a third of the memory that sync.Map takes for it, which counts where
// there are as many as files. The zero value is empty.
type Shards[K comparable, V any] struct {
	parts [64]struct {
		mu sync.Mutex
		m  map[K]V
		_  [48]byte // two locks on one cache line would be as one
	}
}

var shardSeed = maphash.MakeSeed()

// Load gives the value of a key.
func (s *Shards[K, V]) Load(key K) (v V, ok bool) {
	p := &s.parts[maphash.Comparable(shardSeed, key)%uint64(len(s.parts))]
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok = p.m[key]
	return v, ok
}

// LoadOrStore gives the value of a key, which is v if it had none.
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

// Each visits the entries that are there, part by part, in no order.
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
