package view

import (
	"iter"
	"maps"
	"slices"
	"sort"
)

// List is a sorted list of ids that others read and only this package writes. The ids are in
// blocks: to take one out of the middle moves those of its block alone.
type List struct {
	blocks [][]string
	// skip and cut are how many ids of the first and of the last block the list does not have.
	skip, cut int
}

// maxBlock is how many ids a block has at most.
const maxBlock = 256

// block is the part of a block that the list has.
func (l List) block(i int) []string {
	ids := l.blocks[i]
	if i == len(l.blocks)-1 {
		ids = ids[:len(ids)-l.cut]
	}
	if i == 0 {
		ids = ids[l.skip:]
	}
	return ids
}

// All are the ids in their order.
func (l List) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range l.blocks {
			for _, id := range l.block(i) {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Backward are the ids from the last to the first.
func (l List) Backward() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range slices.Backward(l.blocks) {
			for _, id := range slices.Backward(l.block(i)) {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Len counts the ids.
func (l List) Len() int {
	n := -l.skip - l.cut
	for _, block := range l.blocks {
		n += len(block)
	}
	return n
}

// Empty says whether the list has no id.
func (l List) Empty() bool { return len(l.blocks) == 0 }

// First is the first id of a list that is not empty.
func (l List) First() string { return l.blocks[0][l.skip] }

// Rest is the list without its first id.
func (l List) Rest() List {
	if len(l.block(0)) > 1 {
		l.skip++
		return l
	}
	if len(l.blocks) == 1 {
		return List{}
	}
	return List{blocks: l.blocks[1:], cut: l.cut}
}

// Before is the list of the ids before id.
func (l List) Before(id string) List {
	block, at := l.find(id)
	switch {
	case block == len(l.blocks):
		return l
	case block == 0 && at <= l.skip:
		return List{}
	case at == 0:
		return List{blocks: l.blocks[:block], skip: l.skip}
	}
	return List{blocks: l.blocks[:block+1], skip: l.skip, cut: max(len(l.blocks[block])-at, 0)}
}

// find is where an id is, or belongs: the first one that is not smaller.
func (l List) find(id string) (block, at int) {
	block = sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i][len(l.blocks[i])-1] >= id })
	if block == len(l.blocks) {
		return block, 0
	}
	at, _ = slices.BinarySearch(l.blocks[block], id)
	return block, at
}

// with is the whole list with an id. It takes the place of l. Ids are in the order of time, so that most
// are added at the end.
func (l List) with(id string) List {
	block, at := l.find(id)
	switch last := len(l.blocks) - 1; {
	case block <= last && l.blocks[block][at] == id:
		return l
	case block > last && last >= 0 && len(l.blocks[last]) < maxBlock:
		l.blocks[last] = append(l.blocks[last], id)
		return l
	case block > last:
		l.blocks = append(l.blocks, []string{id})
		return l
	}
	l.blocks[block] = slices.Insert(l.blocks[block], at, id)
	if full := l.blocks[block]; len(full) > maxBlock {
		half := len(full) / 2
		l.blocks[block] = slices.Clone(full[:half])
		l.blocks = slices.Insert(l.blocks, block+1, slices.Clone(full[half:]))
	}
	return l
}

// without is the whole list without an id. It takes the place of l.
func (l List) without(id string) List {
	block, at := l.find(id)
	if block == len(l.blocks) || l.blocks[block][at] != id {
		return l
	}
	l.blocks[block] = slices.Delete(l.blocks[block], at, at+1)
	if len(l.blocks[block]) == 0 {
		l.blocks = slices.Delete(l.blocks, block, block+1)
		return l
	}
	for _, left := range []int{block - 1, block} {
		if left < 0 || left+1 >= len(l.blocks) || len(l.blocks[left])+len(l.blocks[left+1]) > maxBlock/2 {
			continue
		}
		l.blocks[left] = slices.Concat(l.blocks[left], l.blocks[left+1])
		l.blocks = slices.Delete(l.blocks, left+1, left+2)
		break
	}
	return l
}

// Lists has a list of ids for each key. A key without ids is not in it.
type Lists[K comparable] struct{ m map[K]List }

func newLists[K comparable]() Lists[K] { return Lists[K]{map[K]List{}} }

// Of is the list of a key.
func (x Lists[K]) Of(key K) List { return x.m[key] }

// Keys are the keys that have ids, in no order.
func (x Lists[K]) Keys() iter.Seq[K] { return maps.Keys(x.m) }

// mark adds an id to a key, or removes it.
func (x Lists[K]) mark(key K, id string, present bool) {
	if present {
		x.m[key] = x.m[key].with(id)
		return
	}
	if left := x.m[key].without(id); left.Empty() {
		delete(x.m, key)
	} else {
		x.m[key] = left
	}
}
