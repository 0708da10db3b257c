package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// metered is a meter with a clock that stands still.
type metered struct {
	*access.Meter
	at   time.Time
	over []string
}

func newMeter(limits access.Limits) *metered {
	m := &metered{at: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
	m.Meter = access.NewMeter(limits, func() time.Time { return m.at }, func(c string) { m.over = append(m.over, c) })
	return m
}

func kv(key string, bytes int) store.KV { return store.KV{Key: key, Value: make([]byte, bytes)} }

// A cluster of 20,000 services begins anew, is away, comes back, and reports on all of them three
// times, on a control plane that was started meanwhile: there is no alarm.
func TestAResyncOf20000ServicesIsWithinTheLimits(t *testing.T) {
	m := newMeter(access.DefaultLimits())
	var stands []store.KV
	for round := range 3 {
		for i := range 20_000 {
			report := kv(record.ObservedServiceKey(clusterA, fmt.Sprintf("service-with-an-ordinary-name-%d", i)), 1000)
			m.Changed(report, false)
			if round == 0 {
				stands = append(stands, report)
			}
		}
		m.Listed(stands)
		m.at = m.at.Add(10 * time.Second)
		m.Changed(kv(record.SessionKey(clusterA), 100), false)
	}
	if len(m.over) > 0 {
		t.Errorf("%v: %s", m.over, m.Passed(clusterA))
	}
	// And a day of ten reports a second.
	for range 24 * 60 * 60 / 10 {
		m.at = m.at.Add(10 * time.Second)
		for i := range 100 {
			m.Changed(stands[i], false)
		}
	}
	if len(m.over) > 0 {
		t.Errorf("%v: %s", m.over, m.Passed(clusterA))
	}
}

func TestMeter(t *testing.T) {
	limits := access.Limits{Keys: 10, Bytes: 10_000, Rate: 0.4, ByteRate: 400} // 100 writes, 100,000 bytes at once
	report := func(i, bytes int) store.KV {
		return kv(record.ObservedServiceKey(clusterA, fmt.Sprint("svc", i)), bytes)
	}
	for name, c := range map[string]struct {
		do   func(m *metered)
		want string
	}{
		"many keys": {func(m *metered) {
			for i := range 11 {
				m.Changed(report(i, 1), false)
			}
		}, "keys"},
		"keys that nobody knows": {func(m *metered) {
			for i := range 11 {
				m.Changed(kv(fmt.Sprint(record.ObservedPrefix(clusterA), "hidden/", i), 1), false)
			}
		}, "keys"},
		"keys that come and go": {func(m *metered) {
			for i := range 40 {
				m.Changed(report(i, 1), false)
				m.Changed(report(i, 0), true)
			}
		}, ""},
		"large keys": {func(m *metered) { m.Changed(report(1, 6000), false); m.Changed(report(2, 6000), false) }, "bytes"},
		"a key that shrank": {func(m *metered) {
			m.Changed(report(1, 9000), false)
			m.Changed(report(1, 10), false)
			m.Changed(report(2, 9000), false)
		}, ""},
		"too often": {func(m *metered) {
			for range 101 {
				m.Changed(report(1, 1), false)
			}
		}, "times a second"},
		"as often, in time": {func(m *metered) {
			for range 101 {
				m.at = m.at.Add(time.Second)
				m.Changed(report(1, 1), false)
			}
		}, ""},
		"too much": {func(m *metered) {
			for range 13 {
				m.Changed(report(1, 8000), false)
			}
		}, "bytes a second"},
		"the session": {func(m *metered) {
			for range 101 {
				m.Changed(kv(record.SessionKey(clusterA), 1), false)
			}
		}, "times a second"},
		"what others write": {func(m *metered) {
			for i := range 200 {
				m.Changed(kv(record.DesiredServiceKey(clusterA, fmt.Sprint(i)), 5000), false)
				m.Changed(kv(record.FederationKey(fmt.Sprint(i)), 5000), false)
				m.Changed(kv(record.ClusterTreePrefix+clusterA, 5000), false)
			}
		}, ""},
		"what stands": {func(m *metered) {
			var all []store.KV
			for i := range 11 {
				all = append(all, report(i, 1))
			}
			m.Listed(all)
		}, "keys"},
		"what stood before a listing": {func(m *metered) {
			for i := range 10 {
				m.Changed(report(i, 1), false)
			}
			m.Listed(nil)
			for i := range 10 {
				m.Changed(report(10+i, 1), false)
			}
		}, ""},
	} {
		m := newMeter(limits)
		m.Changed(kv(record.ObservedServiceKey(clusterB, "svc"), 1), false)
		c.do(m)
		passed := m.Passed(clusterA)
		if c.want == "" && (passed != "" || len(m.over) > 0) || c.want != "" && (!strings.Contains(passed, c.want) || !slices.Equal(m.over, []string{clusterA})) {
			t.Errorf("%s: told of %v: %q", name, m.over, passed)
		}
		if m.Passed(clusterB) != "" {
			t.Errorf("%s: another cluster, too", name)
		}
		m = newMeter(access.Limits{})
		c.do(m)
		if len(m.over) > 0 {
			t.Errorf("%s: without limits", name)
		}
	}
}

// Forgiven is what was too fast, not what is still there.
func TestMeterForgives(t *testing.T) {
	m := newMeter(access.Limits{Keys: 2, Rate: 0.04})
	session := kv(record.SessionKey(clusterA), 1)
	for range 11 {
		m.Changed(session, false)
	}
	if m.Forgive(clusterA); m.Passed(clusterA) != "" || len(m.over) != 1 {
		t.Fatalf("%v %s", m.over, m.Passed(clusterA))
	}
	for range 10 {
		m.Changed(session, false)
	}
	if m.Passed(clusterA) != "" {
		t.Error("its pace is not forgiven")
	}
	m.Changed(session, false)
	for i := range 3 {
		m.Changed(kv(record.ObservedServiceKey(clusterA, fmt.Sprint(i)), 1), false)
	}
	if m.Forgive(clusterA); !strings.Contains(m.Passed(clusterA), "keys") {
		t.Errorf("what stands was forgiven: %q", m.Passed(clusterA))
	}
}
