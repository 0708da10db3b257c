package jobs

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// TestNeedsAreReadWhileTheSweepForgetsSome: the dispatcher holds the read model, a refresh of it waits, and the sweep waits
// for that one.
func TestNeedsAreReadWhileTheSweepForgetsSome(t *testing.T) {
	state := view.NewState(virtual.Open(t).NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}}), time.Now)
	var needs needsCache
	fed := &record.Federation{UID: "uid", Generation: 1}
	needs.put(fed.UID, &Needs{generation: 1})
	read, swept, refreshed := make(chan bool), make(chan struct{}), make(chan struct{})
	go state.Read(func(*view.View) {
		go func() { state.Refresh(); close(refreshed) }()
		<-time.After(10 * time.Millisecond)
		go func() { needs.forgetGone(state); close(swept) }()
		<-time.After(10 * time.Millisecond)
		read <- needs.get(fed) != nil
	})
	select {
	case there := <-read:
		if !there {
			t.Error("they are forgotten, and nobody has seen that their federation is gone")
		}
	case <-time.After(time.Minute):
		t.Fatal("each waits for the next one")
	}
	<-refreshed
	<-swept
	if needs.get(fed) != nil {
		t.Error("the needs of a federation that is gone are kept")
	}
}

// TestNeedsOfALostGenerationAreKept: the instance lives through a restore, and the number of a generation comes again.
func TestNeedsOfALostGenerationAreKept(t *testing.T) {
	t.Parallel()
	var needs needsCache
	fed := &record.Federation{UID: "uid", Generation: 2, Epoch: "first"}
	service := func(cpu string) *oscar.Service { return &oscar.Service{CPU: cpu, Memory: "1Gi"} }
	for epoch, cpu := range map[string]string{"first": "1", "second": "2"} {
		fed.Epoch = epoch
		if needs.get(fed) != nil {
			t.Errorf("epoch %s has those of another one", epoch)
		}
		have, err := needsIn(fed, service(cpu))
		if err != nil {
			t.Fatal(err)
		}
		if needs.put(fed.UID, have); needs.get(fed) != have {
			t.Errorf("epoch %s has none", epoch)
		}
	}
}
