package services

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/syncer/session"
)

// inMemory is a DoubtList in memory.
type inMemory struct{ text []byte }

func (k *inMemory) Load() ([]byte, error)  { return k.text, nil }
func (k *inMemory) Save(text []byte) error { k.text = text; return nil }

// TestWhoTrustsAList: it is that of the last syncer, in the same epoch. What it says is said on while it may be so.
func TestWhoTrustsAList(t *testing.T) {
	const late = 300 * time.Second
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		// last is the list that observed/cluster names; epoch and after are of the second syncer.
		last  func(first string) string
		epoch string
		none  bool // no orders
		after time.Duration
		// listed and other say whether a write is assumed of a service in the list, and of another one.
		listed, other bool
	}{
		"it is named":                    {last: named, listed: true},
		"another one is named":           {last: func(string) string { return "other" }, listed: true, other: true},
		"none is named":                  {last: func(string) string { return "" }, listed: true, other: true},
		"none is named, nothing ordered": {last: func(string) string { return "" }, none: true},
		"etcd was restored":              {last: named, epoch: "later", listed: true, other: true},
		"it is too late for a write":     {last: named, after: late},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &inMemory{}
			first := newInDoubt(disk, late)
			first.begin(doubts{}, "", session.Seen{}, false, at)
			if err := first.save(map[string]time.Time{"listed": at}, at); err != nil {
				t.Fatal(err)
			}
			// What the second one assumes it says to the third, when it has sent nothing.
			second := newInDoubt(disk, late)
			sent := second.begin(loaded(t, second), c.last(first.name()), session.Seen{Epoch: c.epoch}, !c.none, at)
			if c.after == 0 && (said(sent, "listed") != c.listed || said(sent, "other") != c.other) {
				t.Errorf("assumed: %t and %t, want %t and %t", said(sent, "listed"), said(sent, "other"), c.listed, c.other)
			}
			if err := second.save(nil, at.Add(c.after)); err != nil {
				t.Fatal(err)
			}
			third := newInDoubt(disk, late)
			sent = third.begin(loaded(t, third), second.name(), session.Seen{Epoch: c.epoch}, !c.none, at)
			if said(sent, "listed") != c.listed || said(sent, "other") != c.other {
				t.Errorf("the third assumes: %t and %t, want %t and %t", said(sent, "listed"), said(sent, "other"), c.listed, c.other)
			}
		})
	}
}

// TestTheAgeOfAWriteIsKept: a syncer that is killed again and again begins no wait anew. How long none ran is not known.
func TestTheAgeOfAWriteIsKept(t *testing.T) {
	const late = 300 * time.Second
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	disk := &inMemory{}
	first := newInDoubt(disk, late)
	first.begin(doubts{}, "", session.Seen{}, false, at)
	if err := first.save(map[string]time.Time{"old": at.Add(-100 * time.Second), "over": at.Add(-late), "new": at}, at); err != nil {
		t.Fatal(err)
	}
	last := first.name()
	for i, ages := range []map[string]time.Duration{{"old": 100 * time.Second, "new": 0}, {"old": 250 * time.Second, "new": 150 * time.Second}, {"new": 300*time.Second - time.Second}} {
		at = at.Add(time.Hour)
		next := newInDoubt(disk, late)
		sent := next.begin(loaded(t, next), last, session.Seen{}, true, at)
		for _, service := range []string{"old", "over", "new", "other"} {
			since, ok := sent(service)
			if want, doubted := ages[service]; ok != doubted || ok && at.Sub(since) != want {
				t.Errorf("%d: %s: %t %s, want %t %s", i, service, ok, at.Sub(since), doubted, want)
			}
		}
		at = at.Add(150*time.Second - time.Duration(i)*time.Second)
		if err := next.save(nil, at); err != nil {
			t.Fatal(err)
		}
		last = next.name()
	}
}

func said(sent func(string) (time.Time, bool), service string) bool {
	_, ok := sent(service)
	return ok
}

func loaded(t *testing.T, l *inDoubt) doubts {
	t.Helper()
	before, err := l.load()
	if err != nil {
		t.Fatal(err)
	}
	return before
}

func named(first string) string { return first }

func TestDoubtFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in-doubt")
	f := DoubtFile(path)
	if text, err := f.Load(); text != nil || err != nil {
		t.Errorf("%q %v", text, err)
	}
	if err := f.Save([]byte("one")); err != nil {
		t.Fatal(err)
	}
	if text, err := f.Load(); string(text) != "one" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	left := filepath.Join(filepath.Dir(path), ".in-doubt-12345")
	if err := errors.Join(os.WriteFile(left, []byte("half"), 0o600), os.Chtimes(left, time.Time{}, time.Now().Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	if text, err := f.Load(); string(text) != "one" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed process has left: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", maxDoubtFile+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(); err == nil {
		t.Error("a file without an end is read")
	}
}
