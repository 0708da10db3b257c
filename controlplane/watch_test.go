package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/watch"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// table is what a watcher knows: the text of each object by kind and name.
type table map[string]string

func (all table) take(e v1.Event) error {
	key := e.Kind + " " + e.Name
	if e.Deleted {
		delete(all, key)
		return nil
	}
	text, err := json.Marshal([]any{e.Federation, e.Service, e.Cluster})
	all[key] = string(text)
	return err
}

var errSeen = errors.New("enough was seen")

// fresh is the table of a watch that begins now, and its bookmark.
func (l *lists) fresh(caller identity.Caller, q watch.Query) (table, v1.Bookmark) {
	l.t.Helper()
	all, mark := table{}, v1.Bookmark{}
	err := l.Watch.Follow(l.t.Context(), caller, q, watch.Watcher{Event: all.take, Bookmark: func(b v1.Bookmark) error {
		mark = b
		return errSeen
	}})
	if !errors.Is(err, errSeen) {
		l.t.Fatal(err)
	}
	return all, mark
}

// TestAWatcherKnowsWhatThereIs: one that follows, one that resumes now and then, and one that
// begins anew know the same, whatever is made, changed and deleted.
func TestAWatcherKnowsWhatThereIs(t *testing.T) {
	for _, caller := range []identity.Caller{admin, {Subject: "bob"}} {
		t.Run(caller.Subject, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				const n = 20
				l := newLists(t, n)
				follows := table{}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- l.Watch.Follow(ctx, caller, watch.Query{}, watch.Watcher{Event: follows.take, Bookmark: func(v1.Bookmark) error { return nil }})
				}()
				resumes, mark := l.fresh(caller, watch.Query{})
				for round := range 12 {
					for range 1 + round%4 {
						l.change(n)
					}
					<-time.After(time.Second) // virtual: all that there is to do is done
					synctest.Wait()
					now, _ := l.fresh(caller, watch.Query{})
					if !maps.Equal(follows, now) {
						t.Fatalf("round %d: who follows knows\n%v\nand there is\n%v", round, follows, now)
					}
					if round%3 != 2 {
						continue
					}
					err := l.Watch.Follow(t.Context(), caller, watch.Query{Since: mark.Revision, Epoch: mark.Epoch}, watch.Watcher{
						Event: resumes.take,
						Bookmark: func(b v1.Bookmark) error {
							if b.Revision == mark.Revision {
								return nil // the place that it begins at
							}
							mark = b
							return errSeen
						},
					})
					if !errors.Is(err, errSeen) || !maps.Equal(resumes, now) {
						t.Fatalf("round %d: who resumes knows\n%v\nand there is\n%v: %v", round, resumes, now, err)
					}
				}
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

// TestAWatchThatLostItsPlaceIsTold: of a later revision, of another epoch, and of what is
// forgotten.
func TestAWatchThatLostItsPlaceIsTold(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		l := newLists(t, 3)
		_, mark := l.fresh(admin, watch.Query{})
		l.putFederation(50, "private")
		later := startControlPlane(t, l.net.Open(t, "later", store.Config{}), l.identity)
		for what, err := range map[string]error{
			"later":         l.Watch.Check(t.Context(), admin, watch.Query{Since: mark.Revision + 1000}),
			"another epoch": l.Watch.Check(t.Context(), admin, watch.Query{Since: mark.Revision, Epoch: "other"}),
			"forgotten":     later.Watch.Check(t.Context(), admin, watch.Query{Since: mark.Revision, Epoch: mark.Epoch}),
		} {
			if codeOf(t, err) != fault.CodeExpired {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := l.Watch.Check(t.Context(), admin, watch.Query{Since: mark.Revision, Epoch: mark.Epoch}); err != nil {
			t.Error(err)
		}
	})
}

// TestRightsOfAWatcherAreThoseOfTheMoment: what may not be seen any more is told as gone, and
// later changes of it are not told.
func TestRightsOfAWatcherAreThoseOfTheMoment(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		l := newLists(t, 0)
		l.putFederation(0, "restricted") // ann's
		bob := identity.Caller{Subject: "bob"}
		q := watch.Query{Kinds: []string{v1.EventFederation, v1.EventService}, Filter: listing.Query{Owner: "ann"}}
		seen, mark := l.fresh(bob, q)
		if len(seen) != 3 {
			t.Fatalf("bob sees %v", seen)
		}
		l.putFederation(0, "private")
		q.Since = mark.Revision
		told := 0
		err := l.Watch.Follow(t.Context(), bob, q, watch.Watcher{
			Event: func(e v1.Event) error {
				if !e.Deleted || e.Federation != nil || e.Service != nil {
					return fmt.Errorf("bob is told of %+v", e)
				}
				told++
				return seen.take(e)
			},
			Bookmark: func(b v1.Bookmark) error {
				if b.Revision == mark.Revision {
					return nil
				}
				mark = b
				return errSeen
			},
		})
		if !errors.Is(err, errSeen) || len(seen) != 0 || told != 3 {
			t.Fatalf("%v is left after %d events: %v", seen, told, err)
		}
		l.put(record.DesiredServiceKey("a", "s0000-0"), record.Desired{V: record.Version, UID: "f0000-0", Federation: "f0000", Owner: "ann", Generation: 1, Intent: record.IntentApply, Mark: "m"})
		q.Since = mark.Revision
		err = l.Watch.Follow(t.Context(), bob, q, watch.Watcher{
			Event: func(e v1.Event) error { return fmt.Errorf("bob is told of %+v", e) },
			Bookmark: func(b v1.Bookmark) error {
				if b.Revision == mark.Revision {
					return nil
				}
				return errSeen
			},
		})
		if !errors.Is(err, errSeen) {
			t.Error(err)
		}
	})
}
