package services

import (
	"testing"
	"time"
)

func TestAnOlderReasonToLookTakesNoNewerOnesPlace(t *testing.T) {
	s := &Services{process: NewProcess(nil, time.Minute, time.Minute, nil), requested: map[string]time.Time{}}
	early := time.Now()
	late := early.Add(time.Second)
	for _, at := range []time.Time{early, late, early} {
		s.request("s", at)
	}
	if got := s.NewEnough("s", late, time.Minute); !got.Equal(late) {
		t.Errorf("an answer of %v is new enough, want one of %v", got, late)
	}
}
