package view

import (
	"iter"
	"maps"
)

// Table is a map that others read and only this package writes.
type Table[K comparable, V any] struct{ m map[K]V }

// tableOf makes a table of a map.
func tableOf[K comparable, V any](m map[K]V) Table[K, V] { return Table[K, V]{m} }

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

// Index has a set of members for each key. Others read it and only this package writes it. A
// key without members is not in it.
type Index[K, M comparable] struct{ m map[K]map[M]bool }

func newIndex[K, M comparable]() Index[K, M] { return Index[K, M]{map[K]map[M]bool{}} }

// Of are the members of a key, in no order.
func (x Index[K, M]) Of(key K) iter.Seq[M] { return maps.Keys(x.m[key]) }

// Has says whether a key has a member.
func (x Index[K, M]) Has(key K, member M) bool { return x.m[key][member] }

// Any says whether a key has any member.
func (x Index[K, M]) Any(key K) bool { return len(x.m[key]) > 0 }

// Keys are the keys that have members, in no order.
func (x Index[K, M]) Keys() iter.Seq[K] { return maps.Keys(x.m) }

// Len counts the keys that have members.
func (x Index[K, M]) Len() int { return len(x.m) }

// mark adds a member to a key, or removes it.
func (x Index[K, M]) mark(key K, member M, present bool) {
	if present {
		if x.m[key] == nil {
			x.m[key] = map[M]bool{}
		}
		x.m[key][member] = true
		return
	}
	delete(x.m[key], member)
	if len(x.m[key]) == 0 {
		delete(x.m, key)
	}
}

// Nodes has the records of each cluster. A reader gets copies.
type Nodes struct{ m map[string]*Node }

// Get has the records of a cluster; none when the cluster has none.
func (t Nodes) Get(cluster string) Node {
	n, _ := t.Lookup(cluster)
	return n
}

// Lookup has the records of a cluster, and says whether it ever had any.
func (t Nodes) Lookup(cluster string) (Node, bool) {
	if n := t.m[cluster]; n != nil {
		return *n, true
	}
	return Node{}, false
}

// All are the clusters with their records, in no order.
func (t Nodes) All() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		for cluster, n := range t.m {
			if !yield(cluster, *n) {
				return
			}
		}
	}
}

// Keys are the clusters, in no order.
func (t Nodes) Keys() iter.Seq[string] { return maps.Keys(t.m) }
