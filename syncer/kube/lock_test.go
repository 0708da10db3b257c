package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// slowLock is a lock whose answers come late.
type slowLock struct {
	resourcelock.Interface
	holder string
	// answering is called before each answer.
	answering func() error
}

func (l *slowLock) Identity() string { return "me" }

func (l *slowLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, l.answering()
}

func (l *slowLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.answering()
}

// TestALateAnswerDoesNotProlongTheLead: the others count from when the API server
// wrote, which may have been long before we heard of it.
func TestALateAnswerDoesNotProlongTheLead(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	answer, lost := error(nil), 0
	late := func(d time.Duration) func() error {
		return func() error { now = now.Add(d); return answer }
	}
	slow := &slowLock{answering: late(0)}
	l := &timedLock{Interface: slow, lasts: 20 * time.Second, now: func() time.Time { return now }, acquired: make(chan struct{}), note: func(error) {}, lose: func() { lost++ }}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	held := func(what string, want bool) {
		t.Helper()
		if l.held() != want {
			t.Errorf("%s: held is %v", what, !want)
		}
	}
	held("before anything", false)
	if err := l.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	<-l.acquired
	held("after an answer at once", true)
	now = now.Add(10 * time.Second)
	slow.answering = late(15 * time.Second)
	if err := l.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	held("15 s after the renewal was sent", true)
	now = now.Add(6 * time.Second)
	held("21 s after the renewal was sent", false)

	slow.answering = late(0)
	if err := l.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	answer = errors.New("timeout")
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, answer) {
		t.Error(err)
	}
	held("after it was given back, with no answer", false)

	answer, slow.holder = nil, "another"
	if _, _, err := l.Get(t.Context()); err != nil || lost != 1 {
		t.Errorf("another holds it: %d times lost, %v", lost, err)
	}
}
