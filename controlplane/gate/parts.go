package gate

import (
	"errors"

	"github.com/oscarfed/oscarfed/store"
)

// InParts does something with items, each of which stands for itself, in as few
// transactions as etcd's limits allow: what is too large for one is done in two halves,
// one after the other. How large it is depends on what is in it (comparisons, reads,
// writes, bytes), which no number of items bounds. An item that is too large by itself
// holds up no other one; every other error ends it.
func InParts[T any](items []T, do func([]T) error) error {
	err := do(items)
	if len(items) < 2 || !errors.Is(err, store.ErrTooLarge) {
		return err
	}
	var large error
	for _, half := range [][]T{items[:len(items)/2], items[len(items)/2:]} {
		switch err := InParts(half, do); {
		case errors.Is(err, store.ErrTooLarge):
			large = errors.Join(large, err)
		case err != nil:
			return err
		}
	}
	return large
}
