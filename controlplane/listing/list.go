package listing

import (
	"context"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// List is a list of one kind: what is found of it, and as what that is shown.
type List[F, T any] struct {
	Tokens *Tokens
	// Next finds the next entries, so many at most, and says whether the list ends behind them.
	Next func(ctx context.Context, most int) (found []F, end bool, err error)
	// Show calls fn with what was found, in order, and ends with its error.
	Show func(ctx context.Context, found []F, fn func(T) error) error
	// Position is that of an entry.
	Position func(F) []string
	// AtOnce is how many are shown at a time.
	AtOnce int
}

// Page is the page of a query that begins at a position. Errors of reads at its revision are those
// of Tokens.crossing.
func (l *List[F, T]) Page(ctx context.Context, caller identity.Caller, q *Query, at Position) (*Page[T], error) {
	crossing := func(err error) error {
		if err == nil {
			return nil
		}
		return l.Tokens.crossing(err, caller, q, at)
	}
	show := func(found []F, fn func(T) error) error {
		var own error
		err := l.Show(ctx, found, func(one T) error {
			own = fn(one)
			return own
		})
		if own != nil {
			return own
		}
		return crossing(err)
	}
	if q.Limit == 0 {
		return &Page[T]{Each: func(fn func(T) error) error {
			for end := false; !end; {
				var found []F
				var err error
				if found, end, err = l.Next(ctx, l.AtOnce); err != nil {
					return crossing(err)
				}
				if err := show(found, fn); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	}
	found, more, err := l.fill(ctx, q.Limit)
	if err != nil {
		return nil, crossing(err)
	}
	page := &Page[T]{Each: func(fn func(T) error) error {
		for some := range slices.Chunk(found, l.AtOnce) {
			if err := show(some, fn); err != nil {
				return err
			}
		}
		return nil
	}}
	if more {
		page.Next = l.Tokens.Make(caller, q, Position{Revision: at.Revision, Epoch: at.Epoch, After: l.Position(found[len(found)-1])})
	}
	return page, nil
}

// fill takes entries until a page of limit entries is full, and says whether there are more: it
// looks for one entry more than the page has, so that a caller learns only of entries that match.
func (l *List[F, T]) fill(ctx context.Context, limit int) (page []F, more bool, err error) {
	for end := false; !end && len(page) <= limit; {
		var some []F
		if some, end, err = l.Next(ctx, limit+1-len(page)); err != nil {
			return nil, false, err
		}
		page = append(page, some...)
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}
