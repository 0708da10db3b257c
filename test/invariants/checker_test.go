package invariants

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// newTestChecker is a checker that is fed by hand.
func newTestChecker(t *testing.T) *checker {
	t.Helper()
	c, err := newChecker(Options{Secrets: []string{"not-a-real-secret"}, Fenced: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAReplayThatLostSomethingIsNoProof(t *testing.T) {
	kv := func(key string, revision int64) store.KV {
		return store.KV{Key: record.Root + key, Value: []byte(`{"v":1,"x":1}`), ModRevision: revision}
	}
	c := newTestChecker(t)
	c.step(2, []store.Event{{KV: kv("a", 2)}, {KV: kv("b", 2)}})
	for name, tt := range map[string]struct {
		present []store.KV
		ok      bool
	}{
		"the same":                      {[]store.KV{kv("a", 2), kv("b", 2)}, true},
		"a later write was not seen":    {[]store.KV{kv("a", 2), kv("b", 3)}, false},
		"a key was not seen":            {[]store.KV{kv("a", 2), kv("b", 2), kv("c", 3)}, false},
		"another key was not seen":      {[]store.KV{kv("a", 2), kv("c", 2)}, false},
		"the end of a key was not seen": {[]store.KV{kv("a", 2)}, false},
	} {
		if err := c.sameAs(tt.present); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func kvOf(t *testing.T, key string, revision int64, value any) store.KV {
	t.Helper()
	data, err := record.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return store.KV{Key: key, Value: data, ModRevision: revision}
}

// afterARestore checks what is written after a backup of revision 5 was restored, and says whether a
// text is in what it complains of.
func afterARestore(t *testing.T, stood, later []store.KV, text string) ([]Violation, bool) {
	t.Helper()
	c := newTestChecker(t)
	c.begin(5, stood)
	for _, kv := range later {
		c.step(kv.ModRevision, []store.Event{{KV: kv}})
	}
	all := c.report.Violations
	return all, slices.ContainsFunc(all, func(v Violation) bool { return strings.Contains(v.String(), text) })
}

// TestAReportGoesOnWhereItsSyncerWasBeforeARestore: from what stands as in the backup,
// and from nothing else.
func TestAReportGoesOnWhereItsSyncerWasBeforeARestore(t *testing.T) {
	kv := func(key string, revision int64, value any) store.KV { return kvOf(t, key, revision, value) }
	assignment := kv(record.AssignmentKey("a", "j", 1), 3, record.Assignment{V: 1, Job: "j", Attempt: 1, Service: "s"})
	report := func(revision int64, state record.JobState) store.KV {
		return kv(record.JobReportKey("a", "j", 1), revision, record.JobReport{V: 1, State: state})
	}
	for name, tt := range map[string]struct {
		stood []store.KV
		later []store.KV
		ok    bool
	}{
		"of the backup":             {[]store.KV{assignment, report(4, record.JobClaimed)}, []store.KV{report(6, record.JobSubmitted)}, true},
		"not there in the backup":   {[]store.KV{assignment}, []store.KV{report(6, record.JobRunning)}, true},
		"written after the restore": {[]store.KV{assignment}, []store.KV{report(6, record.JobClaimed), report(7, record.JobSubmitted)}, false},
		"no backup":                 {nil, []store.KV{assignment, report(6, record.JobClaimed), report(7, record.JobSubmitted)}, false},
	} {
		if all, told := afterARestore(t, tt.stood, tt.later, "its report went from"); told == tt.ok {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// TestAVoteThatARestoreHasLostDecidesNothingInTheEpochAfterIt: until that epoch has begun it may.
func TestAVoteThatARestoreHasLostDecidesNothingInTheEpochAfterIt(t *testing.T) {
	kv := func(key string, revision int64, value any) store.KV { return kvOf(t, key, revision, value) }
	restored := record.At(time.Unix(1, 0))
	first := kv(record.MetaKey, 2, record.Meta{V: record.Version, Epoch: "e1"})
	second := kv(record.MetaKey, 6, record.Meta{V: record.Version, Epoch: "e2", Epochs: []string{"e1"}, RestoredAt: &restored})
	desired := func(revision int64, intent record.Intent) store.KV {
		return kv(record.DesiredServiceKey("a", "s"), revision, record.Desired{V: record.Version, UID: "f1-a", Federation: "f1", Intent: intent})
	}
	prepare := desired(3, record.IntentPrepare)
	for name, tt := range map[string]struct {
		stood, later []store.KV
		ok           bool
	}{
		"before anybody has noticed the restore": {[]store.KV{first, prepare}, []store.KV{desired(6, record.IntentApply)}, true},
		"in the epoch after it":                  {[]store.KV{first, prepare}, []store.KV{second, desired(7, record.IntentApply)}, false},
		"asked after the restore":                {[]store.KV{first}, []store.KV{desired(6, record.IntentPrepare), desired(7, record.IntentApply)}, false},
		"no backup":                              {nil, []store.KV{first, prepare, desired(6, record.IntentApply)}, false},
	} {
		if all, told := afterARestore(t, tt.stood, tt.later, "is applied and has not voted"); told == tt.ok {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// TestABucketThatWasTakenOverBeforeARestoreIsOurs: that it was left behind may be forgotten before the backup.
func TestABucketThatWasTakenOverBeforeARestoreIsOurs(t *testing.T) {
	desired := func(revision int64, paused bool) store.KV {
		return kvOf(t, record.DesiredServiceKey("a", "s"), revision, record.Desired{
			V: record.Version, UID: "f1-a", Federation: "f1", Owner: "o", Intent: record.IntentApply, Generation: 1, Spec: "s/f1-a.1", Paused: paused,
		})
	}
	spec := kvOf(t, record.SpecKey("a", "s/f1-a.1"), 2, record.Spec{V: record.Version, Owner: "o", Service: json.RawMessage("{}"), Left: []string{"b"}})
	for name, tt := range map[string]struct {
		stood, later []store.KV
		ok           bool
	}{
		"before":    {[]store.KV{spec, desired(3, true)}, []store.KV{desired(6, false)}, true},
		"after it":  {[]store.KV{desired(3, true)}, []store.KV{spec, desired(6, false)}, false},
		"no backup": {nil, []store.KV{spec, desired(6, false)}, false},
	} {
		if all, told := afterARestore(t, tt.stood, tt.later, "no earlier life of its did"); told == tt.ok {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// FuzzChecker feeds histories that no control plane would write: a checker that
// gives up on them would hide what broke. Each line is one event, "key value" or
// "-key"; an empty line ends a revision.
func FuzzChecker(f *testing.F) {
	seed, err := os.ReadFile("testdata/history.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.TrimSpace(string(seed)))
	f.Add("c/a/observed/services/s {\"v\":1,\"vote\":{}}\n\nc/a/session {\"v\":1,\"token\":[{\"password\":1}]}\nfoo {\"v\":1,")
	f.Add("names/%zz/g {\"v\":1,\"uid\":null}\ndeleted/x {\"v\":1,\"federation\":7}\nrequests/r {\"v\":1,\"uid\":\"f9\"}")
	f.Fuzz(func(t *testing.T, text string) {
		c, all := newTestChecker(t), newTestChecker(t)
		all.opts.everything = true
		revision := int64(1)
		for block := range strings.SplitSeq(text, "\n\n") {
			revision++
			events := eventsOf(block, revision)
			if len(events) == 0 {
				continue
			}
			c.step(revision, events)
			all.step(revision, events)
		}
		c.finish(revision)
		all.finish(revision)
		if (len(c.report.Violations) == 0) != (len(all.report.Violations) == 0) {
			t.Errorf("by what is concerned: %v\nby everything: %v", c.report.Violations, all.report.Violations)
		}
	})
}

// eventsOf reads one revision; etcd tells each key once.
func eventsOf(block string, revision int64) []store.Event {
	var out []store.Event
	seen := map[string]bool{}
	for line := range strings.SplitSeq(block, "\n") {
		key, value, _ := strings.Cut(line, " ")
		deleted := strings.HasPrefix(key, "-")
		key = record.Root + strings.TrimPrefix(key, "-")
		if line == "" || seen[key] {
			continue
		}
		seen[key] = true
		ev := store.Event{KV: store.KV{Key: key, ModRevision: revision}, Deleted: deleted}
		if !deleted {
			ev.Value = []byte(value)
		}
		out = append(out, ev)
	}
	return out
}
