package join_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

const definition = `{"name":"first","cluster_id":"a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",
"federation":{"topology":"mesh","delegation":"random","members":[{"type":"oscar","cluster_id":"b","service_name":"second"}]},
"input":[{"storage_provider":"minio.default","path":"first/in"}],"output":[{"storage_provider":"minio.default","path":"first/out"}]}`

func (f *federation) create() error {
	f.T.Helper()
	s := world.Service(f.T, definition)
	_, err := f.Client.CreateService(f.T.Context(), s, client.CreateOptions{Wait: await.Limit})
	return err
}

func says(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: %v; want it to say %q", what, err, part)
	}
}

// serial is that of the certificate in use.
func (s *site) serial() string {
	s.f.T.Helper()
	return world.Must(s.enrolment.Certificate())(s.f.T).Leaf.SerialNumber.String()
}

// session is the create revision of the syncer's session.
func (s *site) session() int64 {
	s.f.T.Helper()
	kv, err := s.f.Store.Get(s.f.T.Context(), record.SessionKey(s.ID))
	if err != nil {
		s.f.T.Fatal(err)
	}
	return kv.CreateRevision
}

// Two clusters join, and a federation stands on both, each with a certificate that
// reads nothing of the other. The certificates are renewed beneath it.
func TestAFederationOfClustersThatJoined(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	a, b := f.site("a"), f.site("b")
	for _, s := range []*site{a, b} {
		s.register()
		s.start()
	}
	f.await("a", "b")
	if err := f.create(); err != nil {
		t.Fatal(err)
	}
	if got := b.Sim.Services(); !slices.Contains(got, "second") {
		t.Errorf("on b there are %v", got)
	}
	as := a.connect()
	if _, err := as.Get(t.Context(), record.DesiredServiceKey("a", "first")); err != nil {
		t.Error(err)
	}
	for _, key := range []string{record.DesiredServiceKey("b", "second"), record.ClusterKey("a"), record.MetaKey, record.JoinKey(record.JoinHash(a.token))} {
		if _, err := as.Get(t.Context(), key); !errors.Is(err, store.ErrDenied) {
			t.Errorf("a reads %s: %v", key, err)
		}
	}

	// Two thirds of the certificates' life pass.
	before, ofB, session := a.serial(), b.serial(), a.session()
	f.clock.Advance(15 * time.Hour)
	if a.serial() != before {
		t.Error("it was renewed too early")
	}
	f.clock.Advance(time.Hour + 5*time.Minute)
	f.Eventually("a renews", func() bool { return a.serial() != before })
	f.Eventually("b renews", func() bool { return b.serial() != ofB })
	if _, err := a.connect().Get(t.Context(), record.DesiredServiceKey("a", "first")); err != nil {
		t.Error("with the new certificate:", err)
	}
	// What the syncer does goes on, in the same session.
	if _, err := f.Client.DeleteService(t.Context(), "first", client.DeleteOptions{Wait: await.Limit}); err != nil {
		t.Error(err)
	}
	f.Eventually("the services are deleted", func() bool { return !slices.Contains(b.Sim.Services(), "second") })
	if got := a.session(); got != session {
		t.Errorf("the session of revision %d was lost; there is one of %d", session, got)
	}
}

// Everything that may go wrong with one token, one after the other.
func TestOneToken(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	a := f.site("a")
	a.register()

	// The process dies when it has made its key, and when it was answered and has
	// kept nothing: the same key has the same outcome.
	a.openEnrolment()
	if err := a.ensure(); err != nil {
		t.Fatal(err)
	}
	uid := a.enrolment.ClusterUID()
	if err := os.Remove(filepath.Join(a.dir, "enrolment.json")); err != nil {
		t.Fatal(err)
	}
	if err := a.ensure(); err != nil || a.enrolment.ClusterUID() != uid {
		t.Errorf("the answer was lost: %v", err)
	}
	if info, err := os.Stat(filepath.Join(a.dir, "client.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}

	rival := f.site("a")
	rival.token = a.token
	says(t, "a second use", rival.ensure(), "used already")
	// Another start with the token that was used does not use it again.
	f.clock.Advance(20 * time.Minute)
	if err := a.ensure(); err != nil {
		t.Error(err)
	}
	// A token that is over is no failure when there is a certificate.
	a.token = rival.token + "0"
	if err := a.ensure(); err != nil {
		t.Error(err)
	}
	a.token = ""
	if err := a.ensure(); err != nil {
		t.Error(err)
	}

	rival.invite(false)
	says(t, "another key", rival.ensure(), "another key")
	rival.token = ""
	says(t, "no token", rival.ensure(), "oscarfed cluster join")
	rival.invite(false)
	f.clock.Advance(16 * time.Minute)
	says(t, "an old token", rival.ensure(), "not accepted")

	// The machine was cloned, its key too, into another Kubernetes.
	a.kube = "another"
	a.invite(false)
	if err := a.ensure(); err != nil { // the certificate of before is good
		t.Error(err)
	}
	if reg, err := f.Client.Cluster(t.Context(), "a"); err != nil || reg.Joined.KubeSystemUID != "kube-a" {
		t.Errorf("%+v %v", reg, err)
	}

	// The identity is lost for good.
	rival.identity = world.Must(seal.Generate())(t)
	rival.invite(true)
	if err := rival.ensure(); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(25 * time.Hour)
	a.kube, a.token = "kube-a", ""
	says(t, "the key that was replaced", a.ensure(), "replaced")
}

// Two syncers with one token at once: one is let in.
func TestTwoSyncersWithOneToken(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	one := f.site("a")
	one.register()
	other := f.site("a")
	other.token = one.token
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, s := range []*site{one, other} {
		wg.Go(func() { errs[i] = s.ensure() })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("%v and %v", errs[0], errs[1])
	}
	says(t, "the other one", errors.Join(errs...), "used already")
}

// TestOneOSCARDoesNotJoinTwice: two clusters are registered, and both syncers are started
// with one OSCAR. Nothing of Kubernetes tells.
func TestOneOSCARDoesNotJoinTwice(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	one, two := f.site("a"), f.site("b")
	one.kube, two.kube = "", ""
	own := two.endpoint
	two.endpoint = one.endpoint
	one.register()
	two.register()
	one.start()
	f.await("a")
	says(t, "the same OSCAR as b", two.ensure(), `is registered as cluster "a" already`)
	// Its token is as good as before.
	two.endpoint = own
	two.start()
	f.await("b")
	if err := f.create(); err != nil {
		t.Error(err)
	}
}

// A machine was off for three months: it renews before it connects. After another
// three it is too late, and a token brings it back with the same key.
func TestAMachineThatWasOff(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	a := f.site("a")
	a.register()
	a.start()
	f.await("a")
	a.stop()
	before := a.serial()

	f.clock.Advance(24*time.Hour + 89*24*time.Hour)
	a.start()
	if a.serial() == before {
		t.Error("it connects with a certificate that has ended")
	}
	f.await("a")
	a.stop()

	// What it got was for a day from now on, by the clock of the authority.
	f.clock.Advance(24*time.Hour + 2*24*time.Hour)
	says(t, "after 91 days", a.ensure(), "needs a token")
	key := world.Must(os.ReadFile(filepath.Join(a.dir, "client.key")))(t)
	a.invite(false)
	a.start()
	f.await("a")
	if again := world.Must(os.ReadFile(filepath.Join(a.dir, "client.key")))(t); string(again) != string(key) {
		t.Error("it has another key")
	}
}

// The API is away when a renewal is due: the syncer works on, and renews when it is back.
func TestTheAPIIsAway(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	a, b := f.site("a"), f.site("b")
	for _, s := range []*site{a, b} {
		s.register()
		s.start()
	}
	f.await("a", "b")
	before := a.serial()
	f.gone.Store(true)
	f.clock.Advance(17 * time.Hour)
	f.Eventually("a renewal failed", func() bool { return f.refused.Load() > 3 })
	if a.serial() != before {
		t.Error("it was renewed by nobody")
	}
	f.gone.Store(false)
	f.Eventually("it renews", func() bool { return a.serial() != before })
	if err := f.create(); err != nil {
		t.Error(err)
	}
}

// A cluster is removed while its syncer runs: its service goes, its renewals are
// refused and say why. It returns as another cluster, to which nothing of before applies.
func TestRemovedWhileItRuns(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	a, b := f.site("a"), f.site("b")
	for _, s := range []*site{a, b} {
		s.register()
		s.start()
	}
	f.await("a", "b")
	if err := f.create(); err != nil {
		t.Fatal(err)
	}
	former := b.enrolment.ClusterUID()
	if res, err := f.Client.RemoveCluster(t.Context(), "b", client.RemoveClusterOptions{Wait: await.Limit}); err != nil || res.Cluster != nil {
		t.Fatalf("%+v %v", res, err)
	}
	if got := b.Sim.Services(); slices.Contains(got, "second") {
		t.Errorf("on b there is still %v", got)
	}
	b.stop()
	f.clock.Advance(25 * time.Hour)
	b.token = ""
	says(t, "the removed cluster", b.ensure(), "it was removed")

	b.register()
	b.start()
	f.await("b")
	if uid := b.enrolment.ClusterUID(); uid == former || uid == "" {
		t.Errorf("it is %s again", uid)
	}
	if keys := world.Must(f.Store.ListKeys(t.Context(), record.DesiredServicesPrefix("b")))(t); len(keys) > 0 {
		t.Errorf("of before there is %v", keys)
	}
}

// A cluster was removed by force while it was away: when it comes back a month later
// it may still renew, learns what it has to do, does it, and is told that it was removed.
func TestRemovedWhileItWasAway(t *testing.T) {
	t.Parallel()
	f := newFederation(t)
	a, b := f.site("a"), f.site("b")
	for _, s := range []*site{a, b} {
		s.register()
		s.start()
	}
	f.await("a", "b")
	if err := f.create(); err != nil {
		t.Fatal(err)
	}
	b.stop()
	if res, err := f.Client.RemoveCluster(t.Context(), "b", client.RemoveClusterOptions{Force: true, Wait: await.Limit}); err != nil || res.Cluster != nil || res.Pending != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	f.clock.Advance(30 * 24 * time.Hour)
	b.start()
	f.Eventually("it deletes its service", func() bool { return !slices.Contains(b.Sim.Services(), "second") })
	f.Eventually("nothing is left of it", func() bool {
		return len(world.Must(f.Store.ListKeys(t.Context(), record.ClusterPrefix("b")+"desired/"))(t)) == 0
	})
	b.stop()
	f.clock.Advance(25 * time.Hour)
	says(t, "when all is done", b.ensure(), "it was removed")
}

// A federation is deleted while one of its clusters is away for longer than a certificate
// lives, and then for longer than it may be renewed. What was ordered waits for it.
func TestADeletionWaitsForAClusterWhoseCertificateHasEnded(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"it renews": 30 * 24 * time.Hour, "it needs a token": 92 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := newFederation(t)
			a, b := f.site("a"), f.site("b")
			for _, s := range []*site{a, b} {
				s.register()
				s.start()
			}
			f.await("a", "b")
			if err := f.create(); err != nil {
				t.Fatal(err)
			}
			b.stop()
			if _, err := f.Client.DeleteService(t.Context(), "first", client.DeleteOptions{Wait: await.Limit}); err != nil {
				t.Fatal(err)
			}
			f.clock.Advance(away)
			if !slices.Contains(b.Sim.Services(), "second") || slices.Contains(a.Sim.Services(), "first") {
				t.Errorf("on a there is %v, on b %v", a.Sim.Services(), b.Sim.Services())
			}
			if name == "it needs a token" {
				says(t, "after 92 days", b.ensure(), "needs a token")
				b.invite(false)
			}
			b.start()
			f.Eventually("it deletes its service", func() bool { return !slices.Contains(b.Sim.Services(), "second") })
			f.Eventually("no tombstone is left", func() bool {
				return len(world.Must(f.Store.ListKeys(t.Context(), record.DesiredServicesPrefix("b")))(t)) == 0
			})
			if err := f.create(); err != nil {
				t.Error("the same federation again:", err)
			}
		})
	}
}
