package guard

import "testing"

// etcd may take one more request for a watch from a stream that has ended. Its place was never given
// back.
func TestNoWatchIsCountedOnAStreamThatHasEnded(t *testing.T) {
	g := New(Config{})
	l := &limitedStream{call: &call{Guard: g, user: g.userOf("a")}}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	l.end()
	if err := l.open(); err == nil || l.user.watches != 0 {
		t.Errorf("%v, and %d watches are counted", err, l.user.watches)
	}
}
