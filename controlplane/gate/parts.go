package gate

import (
	"errors"

	"github.com/oscarfed/oscarfed/store"
)

// InParts calls do with items that are independent of each other, in as few transactions as
// etcd's limits allow. Items that are too large for one transaction are done in two halves, one
// after the other: the size depends on comparisons, reads, writes and bytes, which no number of
// items bounds. An item that is too large by itself does not stop the others. Any other error
// ends the call.
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
