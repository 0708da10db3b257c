package controlplane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// Access tokens that have expired leave the store, and so do those of a federation that
// has ended, or never was: of a creation whose instance died before it began.
func TestAccessTokensThatNobodyCanUseLeaveTheStore(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.SweepInterval = time.Minute })
		w.mustCreate()
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		good := func(expires time.Time) any {
			return record.Tokens{V: 1, Generation: 1, Expires: record.At(expires), Access: "sealed"}
		}
		inADay, past := time.Now().Add(24*time.Hour), time.Now().Add(-time.Second)
		unknown := uuid.Must(uuid.NewV7()).String()
		keep := record.TokensKey("a", v.UID)
		w.put(keep, good(inADay))
		for key, rec := range map[string]any{
			record.TokensKey("b", v.UID):   good(past),
			record.TokensKey("c", v.UID):   "no record of a token",
			record.TokensKey("a", unknown): good(inADay),
			record.TokensKey("b", unknown): good(past),
		} {
			w.put(key, rec)
		}
		tokens := func() []string {
			var out []string
			for _, id := range []string{"a", "b", "c"} {
				out = append(out, w.keys(record.TokensPrefix(id))...)
			}
			return out
		}
		w.eventually(func() bool { return slices.Equal(tokens(), []string{keep}) })
		// What is asked of a holder lies beside them, and is not swept with them.
		hold := record.HoldKey("a", v.UID)
		w.put(hold, record.Hold{V: 1, Order: record.HoldKeep, Serial: 1, Owner: "alice", GivenAt: record.At(past)})
		w.put(record.TokensKey("a", unknown), good(inADay))
		w.eventually(func() bool { return !slices.Contains(tokens(), record.TokensKey("a", unknown)) })
		if got := tokens(); !slices.Equal(got, []string{keep, hold}) {
			t.Errorf("left are %v", got)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool { return !slices.Contains(tokens(), keep) })
	})
}

// One record that cannot be read ends no clean-up, and takes nothing away that it may name.
func TestACleanUpGoesOnPastWhatCannotBeRead(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.SweepInterval = time.Minute })
		w.mustCreate()
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool { return len(w.keys(record.ElapsedKey)) == 1 })
		part := record.PartsOfPrefix(v.UID) + "of-what-cannot-be-read"
		stray := record.HistoryKey(uuid.Must(uuid.NewV7()).String(), 1)
		_, err = w.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.PutBytes(record.HistoryKey(v.UID, 7), []byte("{"))
			tx.PutBytes(record.ElapsedKey, []byte("{"))
			tx.Put(part, record.Part{V: record.Version})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool {
			kv, err := w.store.Get(t.Context(), record.ElapsedKey)
			return err == nil && string(kv.Value) != "{"
		})
		if e := w.elapsed(); e.Seconds == 0 || len(e.Marks) == 0 {
			t.Errorf("%+v", e)
		}
		w.put(stray, record.History{V: record.Version})
		w.eventually(func() bool { return !slices.Contains(w.keys(record.HistoryPrefix), stray) })
		if !slices.Contains(w.keys(record.PartsPrefix), part) {
			t.Error("a part is gone that an unreadable record may name")
		}
	})
}
