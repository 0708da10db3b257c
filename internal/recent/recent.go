package recent

import "sync"

// Values are found by their keys, and each is given once.
type Values[V any] struct {
	// most bounds the bytes. The older half is dropped at once: what is never taken would stay
	// otherwise.
	most int

	mu sync.Mutex
	// young and old have no key in common. size counts the bytes of the young ones.
	young, old map[string]sized[V]
	size       int
}

type sized[V any] struct {
	value V
	bytes int
}

// New makes Values that take most bytes.
func New[V any](most int) *Values[V] { return &Values[V]{most: most} }

// Put keeps a value, in place of an earlier one of its key. The caller must not change it any more.
func (v *Values[V]) Put(key string, value V, bytes int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.take(key)
	if v.size+bytes > v.most/2 {
		v.young, v.old, v.size = nil, v.young, 0
	}
	if v.young == nil {
		v.young = map[string]sized[V]{}
	}
	v.young[key] = sized[V]{value, bytes}
	v.size += bytes
}

// Take gives a value and forgets it.
func (v *Values[V]) Take(key string) (V, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.take(key)
}

// take needs mu.
func (v *Values[V]) take(key string) (V, bool) {
	one, ok := v.young[key]
	if ok {
		v.size -= one.bytes
		delete(v.young, key)
		return one.value, true
	}
	one, ok = v.old[key]
	delete(v.old, key)
	return one.value, ok
}

// Clear forgets all.
func (v *Values[V]) Clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.young, v.old, v.size = nil, nil, 0
}
