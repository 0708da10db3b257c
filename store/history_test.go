package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// story writes what the tests of History read, and returns its revisions.
type story struct {
	t         *testing.T
	store     *store.Store
	revisions []int64
}

// writes puts keys (key=value) and deletes keys (-key) in one transaction.
func (s *story) writes(ops ...string) *story {
	s.t.Helper()
	res, err := s.store.Update(s.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, op := range ops {
			if key, ok := strings.CutPrefix(op, "-"); ok {
				tx.Delete(key)
				continue
			}
			key, value, _ := strings.Cut(op, "=")
			tx.PutBytes(key, []byte(value))
		}
		return nil
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.revisions = append(s.revisions, res.Revision)
	return s
}

// told reads a history as lines, one for each revision, counted from the story's first.
func (s *story) told(prefix string, from, to int64) []string {
	s.t.Helper()
	var out []string
	err := s.store.History(s.t.Context(), prefix, from, to, func(revision int64, events []store.Event) error {
		line := fmt.Sprintf("+%d:", revision-s.revisions[0])
		for _, e := range events {
			if e.ModRevision != revision {
				s.t.Errorf("event of revision %d is told with revision %d", e.ModRevision, revision)
			}
			if e.Deleted {
				line += " -" + e.Key
				continue
			}
			line += " " + e.Key + "=" + string(e.Value)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestHistoryTellsEveryRevisionOnceAndWhole(t *testing.T) {
	s := &story{t: t, store: storetest.New(t)}
	s.writes("/a/x=1", "/a/y=1", "/b/z=1").
		writes("/b/z=2").
		writes("/a/x=2").
		writes("/a/x=2").
		writes("-/a/x", "/a/y=2").
		writes("/a/x=3").
		writes("-/a/x").
		writes("/b/z=3")
	first, last := s.revisions[0], s.revisions[len(s.revisions)-1]
	all := []string{
		"+0: /a/x=1 /a/y=1", "+2: /a/x=2", "+3: /a/x=2", "+4: -/a/x /a/y=2", "+5: /a/x=3", "+6: -/a/x",
	}
	for name, tt := range map[string]struct {
		prefix   string
		from, to int64
		want     []string
	}{
		"everything":                        {"/a/", 1, last, all},
		"from and to are included":          {"/a/", first + 2, first + 5, all[1:5]},
		"one revision":                      {"/a/", first + 4, first + 4, all[3:4]},
		"an end where others have written":  {"/a/", first + 6, first + 7, all[5:]},
		"nothing there":                     {"/c/", 1, last, nil},
		"a revision that changed elsewhere": {"/a/", first + 1, first + 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{t: t, store: s.store, revisions: s.revisions}
			if diff := cmp.Diff(tt.want, s.told(tt.prefix, tt.from, tt.to)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHistoryLongerThanOneBatch(t *testing.T) {
	s := &story{t: t, store: storetest.New(t)}
	const n = 1200 // etcd catches up in batches of 1000 revisions
	for i := range n {
		s.writes(fmt.Sprintf("/a/%d=%d", i%7, i), fmt.Sprintf("/a/more%d=%d", i%5, i))
	}
	lines := s.told("/a/", 1, s.revisions[n-1])
	if len(lines) != n {
		t.Fatalf("%d revisions were told, %d were written", len(lines), n)
	}
	for i, line := range lines {
		if want := fmt.Sprintf("+%d: /a/%d=%d /a/more%d=%d", i, i%7, i, i%5, i); line != want {
			t.Fatalf("%s, want %s", line, want)
		}
	}
}

func TestHistoryWaitsForARevisionToCome(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s := &story{t: t, store: n.Open(t, "test", store.Config{})}
		s.writes("/a/x=1")
		done := make(chan error, 1)
		var told []int64
		go func() {
			done <- s.store.History(t.Context(), "/a/", 1, s.revisions[0]+1, func(revision int64, _ []store.Event) error {
				told = append(told, revision-s.revisions[0])
				return nil
			})
		}()
		(&story{t: t, store: s.store}).writes("/a/x=2")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{0, 1}, told); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHistoryThatIsCompacted(t *testing.T) {
	endpoint := storetest.Etcd(t)
	s := &story{t: t, store: storetest.Open(t, store.Config{Endpoints: []string{endpoint}})}
	s.writes("/a/x=1").writes("/a/x=2").writes("/a/x=3")
	compact(t, endpoint, s.revisions[1])
	none := func(int64, []store.Event) error { t.Error("something was told"); return nil }
	if err := s.store.History(t.Context(), "/a/", 1, s.revisions[2], none); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("got %v, want ErrCompacted", err)
	}
	if diff := cmp.Diff([]string{"+2: /a/x=3"}, s.told("/a/", s.revisions[2], s.revisions[2])); diff != "" {
		t.Error(diff)
	}
}

func TestHistoryEndsEarly(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s := &story{t: t, store: n.Open(t, "test", store.Config{})}
		s.writes("/a/x=1").writes("/a/x=2").writes("/a/x=3")
		enough := errors.New("enough")
		calls := 0
		err := s.store.History(t.Context(), "/a/", 1, s.revisions[2], func(int64, []store.Event) error {
			calls++
			return enough
		})
		if !errors.Is(err, enough) || calls != 1 {
			t.Errorf("%v after %d calls, want the error of the first", err, calls)
		}

		none := func(int64, []store.Event) error { return nil }
		if err := s.store.History(t.Context(), "/a/", 0, 5, none); err == nil {
			t.Error("revision 0 was read")
		}
		if err := s.store.History(t.Context(), "/a/", 5, 4, none); err == nil {
			t.Error("a history that runs backwards was read")
		}

		gone := errors.New("nobody waits")
		ctx, cancel := context.WithCancelCause(t.Context())
		err = s.store.History(ctx, "/a/", 1, s.revisions[2]+1, func(int64, []store.Event) error { cancel(gone); return nil })
		if !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause of ctx", err)
		}
	})
}
