package invariants

import (
	"context"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Replay checks a history piece by piece, while it is made: what it has read may
// be compacted. It is for one goroutine.
type Replay struct{ checker *checker }

// NewReplay is one that has read nothing.
func NewReplay(opts Options) (*Replay, error) {
	c, err := newChecker(opts)
	if err != nil {
		return nil, err
	}
	return &Replay{checker: c}, nil
}

// Stand takes over what stands in a store that was just restored from a backup, without
// judging it: there its history begins. It is called before anything else.
func (r *Replay) Stand(ctx context.Context, s *store.Store) error {
	stood, at, err := s.List(ctx, record.Root)
	if err == nil {
		r.checker.begin(at, stood)
	}
	return err
}

// Hide adds secrets that must appear in no record that is read from now on.
func (r *Replay) Hide(secrets []string) error {
	needles, err := needlesOf(secrets)
	r.checker.needles = append(r.checker.needles, needles...)
	return err
}

// Advance checks what was written since the last call, and returns the revision up
// to which everything is read. After an error it may be called again, and goes on
// where it was.
func (r *Replay) Advance(ctx context.Context, s *store.Store) (int64, error) {
	v, err := s.Read(ctx, record.MetaKey)
	if err != nil {
		return 0, err
	}
	return v.Revision, r.until(ctx, s, v.Revision)
}

// until checks what was written up to a revision.
func (r *Replay) until(ctx context.Context, s *store.Store, last int64) error {
	from := r.checker.report.Last + 1
	if last < from {
		return nil
	}
	err := s.History(ctx, record.Root, from, last, func(revision int64, events []store.Event) error {
		r.checker.step(revision, events)
		return nil
	})
	if err == nil {
		r.checker.report.Last = last
	}
	return err
}

// Finish checks the rest, and everything once more as it stands at the end.
func (r *Replay) Finish(ctx context.Context, s *store.Store) (*Report, error) {
	present, last, err := s.List(ctx, record.Root)
	if err != nil {
		return nil, err
	}
	if err := r.until(ctx, s, last); err != nil {
		return nil, err
	}
	r.checker.finish(last)
	if err := r.checker.sameAs(present); err != nil {
		return nil, err
	}
	return r.checker.report, nil
}
