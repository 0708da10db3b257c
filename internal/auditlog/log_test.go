package auditlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unclosed is a syslog that a test reads afterwards.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

func open(t *testing.T, path string, syslog *bytes.Buffer) *Log {
	t.Helper()
	var l *Log
	var err error
	if syslog == nil {
		l, err = Open(path, nil)
	} else {
		l, err = Open(path, unclosed{syslog})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return l
}

func entries(from, to int) []Entry {
	var out []Entry
	for i := from; i < to; i++ { // two in each transaction
		out = append(out, Entry{ID: fmt.Sprint("id", i), Revision: int64(10 + i/2), Record: []byte(fmt.Sprintf(`{"v":1,"detail":"<%d>"}`, i))})
	}
	return out
}

func appendAll(t *testing.T, l *Log, list []Entry) {
	t.Helper()
	if err := l.Append(list); err != nil {
		t.Fatal(err)
	}
}

func verify(t *testing.T, texts ...string) (Verified, error) {
	t.Helper()
	var v Verifier
	for _, text := range texts {
		if err := v.Read(strings.NewReader(text)); err != nil {
			return v.Verified, err
		}
	}
	return v.Verified, nil
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAGapInTheLogIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, nil)
	appendAll(t, l, entries(0, 5))
	appendAll(t, l, entries(3, 9)) // those that are there already are not written twice
	text := content(t, path)
	if v, err := verify(t, text); err != nil || v.Lines != 9 || v.Hash != l.Head().Hash {
		t.Fatalf("%+v %v", v, err)
	}
	lines := strings.SplitAfter(text, "\n")
	for what, bad := range map[string]string{
		"one is missing":  strings.Join(append(lines[:3:3], lines[4:]...), ""),
		"two are swapped": lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""),
		"one was changed": strings.Replace(text, "<4>", "<5>", 1),
		"one was cut off": text[:len(text)-20],
		"not a log":       "{}\n",
	} {
		if _, err := verify(t, bad); err == nil {
			t.Errorf("%s, and nobody says so", what)
		}
	}
	other := t.TempDir()
	o := open(t, filepath.Join(other, "x"), nil)
	appendAll(t, o, []Entry{{ID: "other", Revision: 3, Record: []byte(`{}`)}, {ID: "id1", Revision: 10, Record: []byte(`{}`)}})
	replaced := lines[0] + strings.SplitAfter(content(t, filepath.Join(other, "x")), "\n")[1]
	if _, err := verify(t, replaced); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("a line of another chain: %v", err)
	}
}

func TestAProcessThatDiesLeavesAChainThatGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, path, nil)
	appendAll(t, l, entries(0, 3))
	head := content(t, path+".head")
	appendAll(t, l, entries(3, 6))
	// It died before it wrote its head, and in the middle of a line.
	if err := os.WriteFile(path+".head", []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content(t, path)+`{"seq":7,"pr`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, nil)
	appendAll(t, again, entries(0, 9))
	if v, err := verify(t, content(t, path)); err != nil || v.Lines != 9 {
		t.Errorf("%+v %v", v, err)
	}
}

func TestAFileThatWasMovedAwayIsFollowedByAnother(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	var syslog bytes.Buffer
	l := open(t, path, &syslog)
	appendAll(t, l, entries(0, 4))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	appendAll(t, l, entries(4, 6))
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, &syslog) // moved away while no process ran
	appendAll(t, l, entries(0, 8))
	if v, err := verify(t, content(t, path+".1"), content(t, path+".2"), content(t, path)); err != nil || v.First != 1 || v.Last != 8 {
		t.Errorf("%+v %v", v, err)
	}
	if v, err := verify(t, content(t, path)); err != nil || v.First != 7 {
		t.Errorf("%+v %v", v, err)
	}
	if sent := strings.Count(syslog.String(), `"hash":"`); sent != 8 {
		t.Errorf("%d lines went to the syslog", sent)
	}
	l.Restart(3)
	appendAll(t, l, []Entry{{ID: "new", Revision: 4, Record: []byte(`{}`)}})
	if v, err := verify(t, content(t, path)); err != nil || v.Last != 9 {
		t.Errorf("after a restore: %+v %v", v, err)
	}
}
