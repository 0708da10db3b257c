package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// guessed is an update of counter c to twice what it holds, built first on a mirror
// that may be behind.
func guessed(view *store.MirrorView, builds *int) store.Update {
	return store.Update{
		Keys: []string{"/c"}, From: view.Guess("/c"),
		Build: func(v store.View, tx *store.Txn) error {
			*builds++
			tx.Expect("/c")
			c := counter{N: 1}
			if kv, ok := v.KV("/c"); ok {
				before, err := store.Decode[counter](kv)
				if err != nil {
					return err
				}
				c.N = 2 * before.N
			}
			if c.N > 100 {
				return errors.New("too many")
			}
			tx.Put("/c", c)
			return nil
		},
	}
}

// mirrorAt runs a mirror of a prefix until it has seen a revision, then stops it.
func mirrorAt(t *testing.T, s *store.Store, prefix string, revision int64) *store.MirrorView {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := s.NewMirror(store.MirrorConfig{Prefixes: []string{prefix}})
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	if err := m.Wait(ctx, revision); err != nil {
		t.Fatal(err)
	}
	view := m.Snapshot()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return view
}

func TestUpdateFromAGuessNeedsNoRead(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		view := mirrorAt(t, s, "/c", put(t, s, "/c", counter{N: 3}))
		before, _ := faults.Transactions()
		builds := 0
		if res, err := s.Update(t.Context(), guessed(view, &builds)); err != nil || !res.Written || builds != 1 {
			t.Fatalf("%+v after %d builds, %v", res, builds, err)
		}
		if reads, _ := faults.Transactions(); reads != before {
			t.Errorf("%d reads", reads-before)
		}
		if c, _ := get[counter](t, s, "/c"); c.N != 6 {
			t.Errorf("counter %d, want 6", c.N)
		}
	})
}

func TestUpdateThatIsFollowedReadsNothingWhereNothingIsToBeDone(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		view := mirrorAt(t, s, "/c", put(t, s, "/c", counter{N: 0}))
		before, _ := faults.Transactions()
		for _, followed := range []bool{true, false} {
			builds := 0
			u := guessed(view, &builds)
			u.Followed = followed
			if res, err := s.Update(t.Context(), u); err != nil || res.Written || res.Revision != view.Revision() {
				t.Fatalf("followed %v: %+v after %d builds, %v", followed, res, builds, err)
			}
			reads, _ := faults.Transactions()
			if want := map[bool]int{true: 0, false: 1}[followed]; reads-before != want || builds != want+1 {
				t.Errorf("followed %v: %d reads, %d builds", followed, reads-before, builds)
			}
		}
	})
}

func TestUpdateThatIsFollowedDoesNotBelieveAnErrorOnAGuess(t *testing.T) {
	s, _ := open(t, store.Config{})
	view := mirrorAt(t, s, "/c", put(t, s, "/c", counter{N: 60}))
	put(t, s, "/c", counter{N: 5})
	u := guessed(view, new(int))
	u.Followed = true
	if _, err := s.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if c, _ := get[counter](t, s, "/c"); c.N != 10 {
		t.Errorf("counter %d, want 10", c.N)
	}
}

func TestUpdateFromAWrongGuessIsBuiltOnTheTruth(t *testing.T) {
	for _, tc := range []struct {
		name         string
		guess, truth int
		want         int
		fails        bool
	}{
		{"older", 3, 5, 10, false},
		{"an error on it is not believed", 60, 5, 10, false},
		{"that nothing is to be done is not believed", 0, 5, 10, false},
		{"a true error is told", 3, 60, 60, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := open(t, store.Config{})
			view := mirrorAt(t, s, "/c", put(t, s, "/c", counter{N: tc.guess}))
			put(t, s, "/c", counter{N: tc.truth})
			builds := 0
			if _, err := s.Update(t.Context(), guessed(view, &builds)); (err != nil) != tc.fails {
				t.Errorf("error %v", err)
			}
			if c, _ := get[counter](t, s, "/c"); c.N != tc.want || builds != 2 {
				t.Errorf("counter %d after %d builds, want %d after 2", c.N, builds, tc.want)
			}
		})
	}
}

func TestUpdateFromAGuessWithALostAnswer(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		view := mirrorAt(t, s, "/c", put(t, s, "/c", counter{N: 3}))
		faults.LoseRequests(1)
		builds := 0
		if res, err := s.Update(t.Context(), guessed(view, &builds)); err != nil || !res.Written {
			t.Fatalf("%+v, %v", res, err)
		}
		if c, _ := get[counter](t, s, "/c"); c.N != 6 || builds != 2 {
			t.Errorf("counter %d after %d builds, want 6 after 2", c.N, builds)
		}
	})
}

// A marker proves what became of a try only from a revision on that etcd itself told.
func TestUpdateTakesNoGuessOfARevisionWithAMarker(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		u := increment("/t/n", "/t/request", "r1", nil)
		mirror := mirrorAt(t, s, "/t/", put(t, s, "/t/n", counter{N: 3}))
		u.From = mirror.Guess("/t/n", "/t/request")
		if _, err := s.Update(t.Context(), u); err == nil {
			t.Error("a guess was taken whose revision was not read")
		}
		read, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		u.From = read.With(mirror, "/t/n", "/t/request")
		before, _ := faults.Transactions()
		if _, err := s.Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if reads, _ := faults.Transactions(); reads != before {
			t.Errorf("%d reads", reads-before)
		}
	})
}
