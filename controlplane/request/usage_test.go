package request

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestBytesAreCountedForTheirAccounts(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	u := newUsage(func() time.Time { return now }, time.Minute)
	kvs := map[string]store.KV{}
	put := func(key string, rec any) {
		value, err := record.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		kvs[key] = store.KV{Key: key, Value: value}
		u.Changed(kvs[key], false)
	}
	remove := func(key string) {
		u.Changed(store.KV{Key: key}, true)
		delete(kvs, key)
	}
	long := strings.Repeat("x", 10_000)
	put(record.FederationKey("f"), record.Federation{UID: "f", Owner: "ann", Detail: long})
	put(record.SpecKey("a", "svc/uid.1"), record.Spec{Owner: "ann", Service: []byte(`{"script":"` + long + `"}`)})
	put(record.HistoryKey("f", 1), record.History{Owner: "ann", Service: []byte(`{"owner":"bob"}`)})
	put(record.SecretsKey("f", 1), record.Secrets{Owner: "ann", Sealed: long})
	put(record.DesiredServiceKey("a", "svc"), record.Desired{Owner: "ann", Sees: []string{long}})
	put(record.DeletedKey("uid"), record.Deleted{Owner: "ann"})
	put(record.JobKey("j"), record.Job{Job: "j", Owner: "ann", By: "bob"})
	put(record.EventKey("j"), record.Event{Sealed: long})
	put(record.DecisionKey("j", 1), record.Decision{Gzip: long})
	put(record.AssignedEventKey("a", "j", 1), record.Event{Sealed: long})
	request := ClaimOf(identity.Caller{Subject: "ann"}, Repeat{Key: "k", Method: "PUT", Path: "/x"}, "r")
	put(record.RequestKey(request.Hash), record.Request{UID: long})
	put(record.MetaKey, record.Meta{ControlPlane: long})
	put(record.SpecKey("a", "old/uid.1"), record.Spec{Service: []byte(`{"owner":"eve"}`)})

	same := func(what string) {
		t.Helper()
		again := newUsage(u.now, time.Minute)
		var all []store.KV
		for _, kv := range kvs {
			all = append(all, kv)
		}
		again.Listed(all)
		for _, subject := range []string{"ann", "bob", "eve"} {
			if one, other := u.account(subject).live, again.account(subject).live; one != other {
				t.Errorf("%s: of %s %v were seen, and %v are listed after a restart", what, subject, one, other)
			}
		}
	}
	same("made")
	ann, bob := u.account("ann"), u.account("bob")
	if ann.definitions() < 40_000 || ann.live[useRequests] < 10_000 || ann.live[useJobs] != 0 || bob.live[useJobs] < 30_000 || bob.definitions() != 0 {
		t.Errorf("ann %v, bob %v", ann.live, bob.live)
	}
	put(record.FederationKey("f"), record.Federation{UID: "f", Owner: "ann"})
	for _, key := range []string{record.SpecKey("a", "svc/uid.1"), record.EventKey("j"), record.RequestKey(request.Hash)} {
		remove(key)
	}
	same("deleted")
	if freed := ann.stillFreed(now); freed < 20_000 || freed > 22_000 {
		t.Errorf("%d bytes are in etcd's history", freed)
	}
	now = now.Add(2 * time.Minute)
	if freed := ann.stillFreed(now); freed != 0 {
		t.Errorf("%d bytes are in a history that was compacted", freed)
	}
	for key := range kvs {
		remove(key)
	}
	if ann.live != [uses]int64{} || bob.live != [uses]int64{} || len(u.keys) != 0 {
		t.Errorf("nothing is there: %v, %v, %d keys", ann.live, bob.live, len(u.keys))
	}
}

// TestUsageAddsUp: what is shown of an account is what counts against its budget, and the audit
// does not.
func TestUsageAddsUp(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	u := newUsage(func() time.Time { return now }, time.Minute)
	put := func(key string, rec any) {
		value, err := record.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		u.Changed(store.KV{Key: key, Value: value}, false)
	}
	put(record.FederationKey("f"), record.Federation{UID: "f", Owner: "ann"})
	put(record.HistoryKey("f", 1), record.History{Owner: "ann"})
	put(record.AuditKey("1"), record.Audit{By: "ann"})
	put(record.AuditKey("2"), record.Audit{})
	u.Changed(store.KV{Key: record.HistoryKey("f", 1)}, true)

	shown := u.show("ann", u.account("ann"), 10_000)
	if shown.FederationBytes == 0 || shown.HistoryBytes != 0 || shown.FreedBytes == 0 || shown.AuditBytes == 0 {
		t.Errorf("ann has %+v", shown)
	}
	if shown.UsedBytes != shown.FederationBytes+shown.FreedBytes || *shown.LeftBytes != 10_000-shown.UsedBytes {
		t.Errorf("it does not add up: %+v", shown)
	}
	if admin := u.show(identity.Admin, u.account(identity.Admin), 10_000); admin.LeftBytes != nil || admin.AuditBytes == 0 || admin.UsedBytes != 0 {
		t.Errorf("the administrator has %+v", admin)
	}
}
