package store_test

import (
	"errors"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

func TestUpdateFindsOutAnUnknownOutcome(t *testing.T) {
	for name, disturb := range map[string]func(*storetest.Faults){
		"answer lost":        func(f *storetest.Faults) { f.LoseAnswers(1) },
		"not succeeded":      func(f *storetest.Faults) { f.SendTwice(1) },
		"request lost":       func(f *storetest.Faults) { f.LoseRequests(1) },
		"lost several times": func(f *storetest.Faults) { f.LoseRequests(2); f.LoseAnswers(1) },
	} {
		for guesses, from := range guesses() {
			t.Run(name+", "+guesses, func(t *testing.T) {
				s, faults := open(t, store.Config{})
				u := increment("/t/n", "/t/request", "r1", nil)
				u.From = from(t, s, put(t, s, "/t/n", counter{N: 1}))
				disturb(faults)
				res, err := s.Update(t.Context(), u)
				if err != nil {
					t.Fatal(err)
				}
				c, kv := get[counter](t, s, "/t/n")
				m, mkv := get[marker](t, s, "/t/request")
				if c.N != 2 || m.RequestID != "r1" {
					t.Errorf("counter %+v, marker %+v", c, m)
				}
				if !res.Written || res.Revision != kv.ModRevision || res.Revision != mkv.ModRevision {
					t.Errorf("result %+v, counter at %d, marker at %d", res, kv.ModRevision, mkv.ModRevision)
				}
			})
		}
	}
}

// guesses are what an update of counter /t/n with marker /t/request is first built on.
func guesses() map[string]func(t *testing.T, s *store.Store, revision int64) *store.View {
	return map[string]func(*testing.T, *store.Store, int64) *store.View{
		"read": func(*testing.T, *store.Store, int64) *store.View { return nil },
		"guessed": func(t *testing.T, s *store.Store, revision int64) *store.View {
			t.Helper()
			read, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return read.With(mirrorAt(t, s, "/t/", revision), "/t/n", "/t/request")
		},
	}
}

// A deletion deleted two lives, and a creation came back from the dead: the answer
// was lost, and before it was asked what had become of it, others had undone it.
func TestUpdateIsNotDoneTwiceWhenOthersUndidIt(t *testing.T) {
	for name, undo := range map[string]func(*store.Txn){
		"removed":     func(tx *store.Txn) { tx.Delete("/t/n"); tx.Delete("/t/request") },
		"overwritten": func(tx *store.Txn) { tx.Delete("/t/n"); tx.Put("/t/request", marker{RequestID: "other"}) },
	} {
		for guesses, from := range guesses() {
			t.Run(name+", "+guesses, func(t *testing.T) {
				endpoint := storetest.Etcd(t)
				s, faults := open(t, store.Config{Endpoints: []string{endpoint}})
				other := storetest.Open(t, store.Config{Endpoints: []string{endpoint}})
				builds := 0
				u := increment("/t/n", "/t/request", "r1", &builds)
				u.From = from(t, s, put(t, s, "/t/other", counter{}))
				faults.LoseAnswers(1)
				var undone int64
				faults.OnLostAnswer(func() {
					res, err := other.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error { undo(tx); return nil }})
					if err != nil {
						t.Error(err)
					}
					undone = res.Revision
				})
				res, err := s.Update(t.Context(), u)
				if err != nil {
					t.Fatal(err)
				}
				if !res.Written || res.Revision != undone-1 || builds != 1 {
					t.Errorf("result %+v after %d builds; it was written at %d", res, builds, undone-1)
				}
				if _, err := s.Get(t.Context(), "/t/n"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("it was done again: %v", err)
				}
			})
		}
	}
}

// When the history is compacted the outcome stays unknown.
func TestUpdateIsUnknownWhenItsHistoryIsGone(t *testing.T) {
	endpoint := storetest.Etcd(t)
	s, faults := open(t, store.Config{Endpoints: []string{endpoint}})
	other := storetest.Open(t, store.Config{Endpoints: []string{endpoint}})
	put(t, s, "/t/n", counter{N: 1})
	faults.LoseAnswers(1)
	faults.OnLostAnswer(func() {
		res, err := other.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error { tx.Delete("/t/request"); return nil }})
		if err != nil {
			t.Error(err)
		}
		compact(t, endpoint, res.Revision)
	})
	if _, err := s.Update(t.Context(), increment("/t/n", "/t/request", "r1", nil)); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("error %v, want an unknown outcome", err)
	}
	if c, _ := get[counter](t, s, "/t/n"); c.N != 2 {
		t.Errorf("counted to %d", c.N)
	}
}

// A marker that had the request's id before it was sent says nothing about it.
// The write that passes etcd's quota while it is applied is applied, and answered
// like those that are refused.
func TestUpdateThatPassedTheQuotaIsDone(t *testing.T) {
	s, faults := open(t, store.Config{})
	put(t, s, "/t/n", counter{N: 1})
	faults.PassQuota(1)
	res, err := s.Update(t.Context(), increment("/t/n", "/t/request", "r1", nil))
	if err != nil || !res.Written {
		t.Errorf("with a marker: %+v, error %v", res, err)
	}
	if c, kv := get[counter](t, s, "/t/n"); c.N != 2 || kv.ModRevision != res.Revision {
		t.Errorf("counter %+v at %d, result %+v", c, kv.ModRevision, res)
	}

	faults.PassQuota(1)
	_, err = s.Update(t.Context(), store.Update{Keys: []string{"/t/state"}, Build: func(_ store.View, tx *store.Txn) error {
		tx.Put("/t/state", "reached")
		return nil
	}})
	if err != nil {
		t.Errorf("decided by the state alone: %v", err)
	}

	// An update that does not know its outcome must not say that nothing was written.
	faults.PassQuota(1)
	_, err = s.Update(t.Context(), increment("/t/n", "", "", nil))
	if !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("without a marker: %v", err)
	}
}

func TestUpdateIsNotDoneByAnOldMarker(t *testing.T) {
	s, faults := open(t, store.Config{})
	put(t, s, "/t/request", marker{RequestID: "r1"})
	put(t, s, "/t/n", counter{N: 1})
	faults.BeforeWrite(func() { put(t, s, "/t/n", counter{N: 10}) })
	builds := 0
	if _, err := s.Update(t.Context(), increment("/t/n", "/t/request", "r1", &builds)); err != nil {
		t.Fatal(err)
	}
	if c, _ := get[counter](t, s, "/t/n"); c.N != 11 || builds != 2 {
		t.Errorf("counter %d after %d builds", c.N, builds)
	}
}

func TestUpdateSaysWhenTheOutcomeIsUnknown(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		var heal func()
		faults.BeforeWrite(func() { heal = n.Cut("test", "etcd") })
		_, err := s.Update(t.Context(), increment("/t/n", "/t/request", "r1", nil))
		if !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("an unanswered write: %v", err)
		}
		_, err = s.Update(t.Context(), increment("/t/n", "/t/request", "r2", nil))
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("a write that was never sent: %v", err)
		}
		heal()
		// The same request again gives the same outcome, whatever became of the first.
		if _, err := s.Update(t.Context(), increment("/t/n", "/t/request", "r3", nil)); err != nil {
			t.Error(err)
		}
	})
}

// A doubt ends when a later view shows that the lost try can never be applied.
func TestUpdateForgetsADoubtThatWasResolved(t *testing.T) {
	s, faults := open(t, store.Config{})
	enough := errors.New("enough")
	put(t, s, "/t/n", counter{N: 1})
	faults.LoseRequests(1)
	faults.BeforeWrite(func() { put(t, s, "/t/n", counter{N: 5}) })
	builds := 0
	u := increment("/t/n", "/t/request", "r1", &builds)
	build := u.Build
	u.Build = func(v store.View, tx *store.Txn) error {
		if builds == 1 {
			return enough
		}
		return build(v, tx)
	}
	if _, err := s.Update(t.Context(), u); !errors.Is(err, enough) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Error(err)
	}
}
