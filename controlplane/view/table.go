package view

import (
	"iter"
	"maps"
)

// Table is a map that others read and only this package writes.
type Table[K comparable, V any] struct{ m map[K]V }

// TableOf makes a table of a map.
func TableOf[K comparable, V any](m map[K]V) Table[K, V] { return Table[K, V]{m} }

// Get is the value at a key; the zero value for none.
func (t Table[K, V]) Get(key K) V { return t.m[key] }

// Lookup is the value at a key, and whether there is one.
func (t Table[K, V]) Lookup(key K) (V, bool) {
	v, ok := t.m[key]
	return v, ok
}

// All are the keys and values, in no order.
func (t Table[K, V]) All() iter.Seq2[K, V] { return maps.All(t.m) }

// Len counts the keys.
func (t Table[K, V]) Len() int { return len(t.m) }

// Keys are the keys, in no order.
func (t Table[K, V]) Keys() iter.Seq[K] { return maps.Keys(t.m) }
