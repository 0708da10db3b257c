package view

import (
	"iter"
	"maps"
	"slices"
	"sort"
)

// List is a list of jobs in their order, that others read and only this package writes. The positions are in
// blocks: to take one out of the middle moves those of its block alone.
type List struct {
	blocks [][]JobPosition
	// skip and cut are how many positions of the first and of the last block the list does not have.
	skip, cut int
}

// maxBlock is how many positions a block has at most.
const maxBlock = 256

// block is the part of a block that the list has.
func (l List) block(i int) []JobPosition {
	out := l.blocks[i]
	if i == len(l.blocks)-1 {
		out = out[:len(out)-l.cut]
	}
	if i == 0 {
		out = out[l.skip:]
	}
	return out
}

// IDs are the ids of the jobs in their order.
func (l List) IDs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range l.blocks {
			for _, p := range l.block(i) {
				if !yield(p.ID()) {
					return
				}
			}
		}
	}
}

// Backward are the positions from the last to the first.
func (l List) Backward() iter.Seq[JobPosition] {
	return func(yield func(JobPosition) bool) {
		for i := range slices.Backward(l.blocks) {
			for _, p := range slices.Backward(l.block(i)) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Len counts the jobs.
func (l List) Len() int {
	n := -l.skip - l.cut
	for _, block := range l.blocks {
		n += len(block)
	}
	return n
}

// Empty says whether the list has no job.
func (l List) Empty() bool { return len(l.blocks) == 0 }

// First is the first position of a list that is not empty.
func (l List) First() JobPosition { return l.blocks[0][l.skip] }

// Rest is the list without its first job.
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

// Before is the list of the jobs before a position.
func (l List) Before(p JobPosition) List {
	block, at := l.find(p)
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

// find is where a position is, or belongs: the first one that is not smaller.
func (l List) find(p JobPosition) (block, at int) {
	block = sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i][len(l.blocks[i])-1] >= p })
	if block == len(l.blocks) {
		return block, 0
	}
	at, _ = slices.BinarySearch(l.blocks[block], p)
	return block, at
}

// with is the whole list with a position. It takes the place of l. Positions are in the order of time, so that most
// are added at the end.
func (l List) with(p JobPosition) List {
	block, at := l.find(p)
	switch last := len(l.blocks) - 1; {
	case block <= last && l.blocks[block][at] == p:
		return l
	case block > last && last >= 0 && len(l.blocks[last]) < maxBlock:
		l.blocks[last] = append(l.blocks[last], p)
		return l
	case block > last:
		l.blocks = append(l.blocks, []JobPosition{p})
		return l
	}
	l.blocks[block] = slices.Insert(l.blocks[block], at, p)
	if full := l.blocks[block]; len(full) > maxBlock {
		half := len(full) / 2
		l.blocks[block] = slices.Clone(full[:half])
		l.blocks = slices.Insert(l.blocks, block+1, slices.Clone(full[half:]))
	}
	return l
}

// without is the whole list without a position. It takes the place of l.
func (l List) without(p JobPosition) List {
	block, at := l.find(p)
	if block == len(l.blocks) || l.blocks[block][at] != p {
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

// Lists has a list of jobs for each key. A key without jobs is not in it.
type Lists[K comparable] struct{ m map[K]List }

func newLists[K comparable]() Lists[K] { return Lists[K]{map[K]List{}} }

// Of is the list of a key.
func (x Lists[K]) Of(key K) List { return x.m[key] }

// Keys are the keys that have jobs, in no order.
func (x Lists[K]) Keys() iter.Seq[K] { return maps.Keys(x.m) }

// mark adds a job to a key, or removes it.
func (x Lists[K]) mark(key K, p JobPosition, present bool) {
	if present {
		x.m[key] = x.m[key].with(p)
		return
	}
	if left := x.m[key].without(p); left.Empty() {
		delete(x.m, key)
	} else {
		x.m[key] = left
	}
}
