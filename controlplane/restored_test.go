package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Several instances see that the store was restored. One begins an epoch; the doubt of
// the others is older than that, and is settled by it.
func TestARestoreIsOneEpochHoweverManyHaveSeenIt(t *testing.T) {
	cp, st := blind(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cp.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	within := time.After(time.Minute)
	select {
	case <-cp.Ready():
	case <-within:
		t.Fatal("the control plane was never ready")
	}
	epochs := func() []string {
		t.Helper()
		meta, err := readMeta(ctx, st)
		if err != nil {
			t.Fatal(err)
		}
		return append(meta.Epochs, meta.Epoch)
	}
	settle := func(found doubt) {
		t.Helper()
		cp.doubts.Add(1)
		cp.doubt <- found
		for tick := time.NewTicker(5 * time.Millisecond); cp.doubtful(); {
			select {
			case <-tick.C:
			case <-within:
				t.Fatal("the doubt stays")
			}
		}
	}

	first := epochs()[0]
	if _, err := renew(ctx, st, first, time.Now()); err != nil { // another instance
		t.Fatal(err)
	}
	settle(doubt{"it does not have revision 100", first})
	if now := epochs(); len(now) != 2 {
		t.Errorf("a doubt that another instance had settled has left the epochs %v", now)
	}
	settle(doubt{"it does not have revision 200", epochs()[1]})
	if now := epochs(); len(now) != 3 {
		t.Errorf("a doubt of the present epoch has left the epochs %v", now)
	}
	// The backup was older than an earlier restore, of which all instances know.
	for range 3 {
		settle(doubt{"it does not have epoch e", "e"})
	}
	if now := epochs(); len(now) != 5 || now[2] != "e" {
		t.Errorf("doubts of a lost epoch have left the epochs %v", now)
	}
	var meta *record.Meta
	var err error
	if err := cp.state.wait(ctx, cp.mirror.Revision()); err != nil {
		t.Fatal(err)
	}
	cp.mirror.View(func(v *store.MirrorView) {
		kv, _ := v.KV(record.MetaKey)
		meta, err = store.Decode[record.Meta](kv)
	})
	if err != nil || meta.Epoch != epochs()[4] {
		t.Errorf("the instance goes on in epoch %v (%v)", meta, err)
	}
}
