package syncer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// upgraded is an OSCAR whose version changes.
type upgraded struct {
	syncer.OSCAR
	version atomic.Pointer[string]
}

func (u *upgraded) Info(ctx context.Context) (manager.Info, error) {
	info, err := u.OSCAR.Info(ctx)
	if v := u.version.Load(); v != nil {
		info.Version = *v
	}
	return info, err
}

// TestAnUpgradeOfOSCARIsToldBeforeTheNextComparison: what it was is not shown for as long
// as all services rest, and no vote is cast on it.
func TestAnUpgradeOfOSCARIsToldBeforeTheNextComparison(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		u := &upgraded{OSCAR: r.oscar("syncer")}
		u.version.Store(new("v3.6.1"))
		r.start(func(c *syncer.Config) { c.OSCAR, c.Resync = u, never })
		r.eventually("the old version is told", func() bool {
			c := r.cluster()
			return c != nil && c.OscarVersion == "v3.6.1" && c.Reason == record.ReasonUnsupportedVersion
		})
		refused := newReplica("early")
		r.want(refused, record.IntentPrepare)
		r.await(refused, record.PhaseRefused, because(record.ReasonUnsupportedVersion))

		u.version.Store(new("v4.1.2"))
		voted := newReplica("late")
		r.want(voted, record.IntentPrepare)
		r.await(voted, record.PhasePrepared)
		r.eventually("the new version is told", func() bool {
			c := r.cluster()
			return c.OscarVersion == "v4.1.2" && c.Reason == ""
		})
	})
}

// startBefore starts a syncer whose OSCAR can become one of another version.
func (r *rig) startBefore() *newVersion {
	r.t.Helper()
	newer := &newVersion{next: r.net.Host("syncer").Transport(nil)}
	client := world.Must(manager.New(manager.Config{Endpoint: r.url, User: "oscar", PasswordFile: r.password, Transport: newer}))(r.t)
	r.t.Cleanup(client.Close)
	r.start(func(c *syncer.Config) { c.OSCAR = client })
	return newer
}

// TestANewVersionOfOSCARIsNoOpponent: its services have one more field.
func TestANewVersionOfOSCARIsNoOpponent(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		newer := r.startBefore()
		p := newReplica("grayify")
		r.makeReady(p)
		before := r.mirror.Revision()
		newer.runs.Store(true)
		r.repairedOnce(p, before)
		r.equalCalls(p.name, "create", "update")
	})
}

// TestANewVersionOfOSCARIsNoDriftToReport, where nothing is repaired and no PUT tells what it shows now.
func TestANewVersionOfOSCARIsNoDriftToReport(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		newer := r.startBefore()
		p := newReplica("grayify")
		r.makeReady(p)
		r.want(p, record.IntentApply, func(d *record.Desired) { d.Drift = "report" })
		r.eventually("it is known of which version it is", func() bool { return r.observed(p.name).OscarVersion != "" })
		before, since := r.observed(p.name), r.mirror.Revision()
		newer.runs.Store(true)
		r.eventually("it is of another", func() bool { return r.observed(p.name).OscarVersion == "v99.0.0" })
		r.resynced()
		if o := r.observed(p.name); o.Phase != record.PhaseReady || o.ReadBack == before.ReadBack {
			t.Errorf("it is %+v", o)
		}
		if got := r.phases(p.name, since); got != "ready" {
			t.Errorf("reports %q", got)
		}
		r.equalCalls(p.name, "create")

		// What somebody changes is drift all the same, also in what nobody asked for.
		if status := r.ask(http.MethodPut, "/system/services", vandal); status >= 300 {
			t.Fatal(status)
		}
		r.await(p, record.PhaseDrifted)
	})
}

// TestAnOSCARThatDoesNotTellItsVersionHoldsUpNoOtherWork: it tells everything else.
func TestAnOSCARThatDoesNotTellItsVersionHoldsUpNoOtherWork(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		newer := &newVersion{next: r.net.Host("syncer").Transport(nil)}
		client := world.Must(manager.New(manager.Config{Endpoint: r.url, User: "oscar", PasswordFile: r.password, Transport: newer}))(t)
		t.Cleanup(client.Close)
		stop := r.start()
		var unrepaired []*replica
		for i := range 8 { // as many as are decided upon at the same time
			p := newReplica(fmt.Sprintf("unrepaired%d", i))
			r.makeReady(p)
			r.want(p, record.IntentApply, func(d *record.Desired) { d.Drift = "report" })
			r.await(p, record.PhaseReady)
			unrepaired = append(unrepaired, p)
		}
		other := newReplica("other")
		r.makeReady(other)
		stop()

		silent, newest := make(chan struct{}), unrepaired[0]
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: client, info: func(ctx context.Context) (manager.Info, error) {
				select {
				case <-silent:
					return client.Info(ctx)
				case <-ctx.Done():
					return manager.Info{}, context.Cause(ctx)
				}
			}}
		})
		newer.runs.Store(true)
		<-time.After(10 * time.Second) // all are looked at
		other.image, other.generation = "example.org/newer", 2
		r.want(other, record.IntentApply)
		r.await(other, record.PhaseReady)
		r.inPlace(other)

		// What may be an upgrade is not told as a change.
		since := r.mirror.Revision()
		r.want(newest, record.IntentApply, func(d *record.Desired) { d.Drift = "report" })
		<-time.After(time.Minute)
		if got := r.phases(newest.name, since); got != "" {
			t.Errorf("reports %q", got)
		}
		close(silent)
		r.eventually("it is of another version", func() bool { return r.observed(newest.name).OscarVersion == "v99.0.0" })
		if got := r.phases(newest.name, since); got != "ready" {
			t.Errorf("reports %q", got)
		}
	})
}

// newVersion shows services as an OSCAR of another version, once it runs.
type newVersion struct {
	next http.RoundTripper
	runs atomic.Bool
}

func (n *newVersion) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.next.RoundTrip(req)
	if err != nil || !n.runs.Load() || req.Method != http.MethodGet || !strings.HasPrefix(req.URL.Path, "/system/services") && req.URL.Path != "/system/info" {
		return resp, err
	}
	shown, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	shown = bytes.ReplaceAll(shown, []byte(`"volume_status"`), []byte(`"added":"","volume_status"`))
	shown = regexp.MustCompile(`"version":"[^"]*"`).ReplaceAll(shown, []byte(`"version":"v99.0.0"`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(shown)), int64(len(shown))
	return resp, nil
}
