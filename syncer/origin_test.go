package syncer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/keyserver"
	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

// secretKey is alice's at the origin; no log may have it, nor etcd.
const secretKey = "canary-secret-key-of-alice"

// The address at which a syncer answers its OSCAR; one after another listens there.
const (
	doorAddress = "syncer.oscar:8080"
	doorURL     = "http://" + doorAddress
)

// origins play the origin's OSCAR and MinIO.
type origins struct {
	mu    sync.Mutex
	asked []origin.Ask
	looks int
	keys  error
	alive error
	// access is what they take for alice's access key.
	access string
	// silent is a cluster that answers nothing.
	silent string
}

func (o *origins) Keys(ctx context.Context, a origin.Ask) (origin.Keys, error) {
	if a.Cluster == o.silent {
		<-ctx.Done()
		return origin.Keys{}, &origin.Error{Kind: origin.Unreachable, Message: "it does not answer", Err: ctx.Err()}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, a)
	return origin.Keys{Endpoint: "https://lies.example.org", AccessKey: o.access, SecretKey: secretKey}, o.keys
}

func (o *origins) Alive(_ context.Context, endpoint string, verify bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks++
	if endpoint != there.MinioEndpoint || !verify {
		return errors.New("another MinIO is looked at")
	}
	return o.alive
}

func (o *origins) change(fn func(*origins)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn(o)
}

func (o *origins) count() (asked, looks int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked), o.looks
}

var there = record.OriginStorage{
	ClusterID: "oscar-cluster-z", Endpoint: "https://z.example.org", SSLVerify: true,
	MinioEndpoint: "https://minio.z.example.org", MinioRegion: "eu-1", MinioVerify: true,
}

// abroad is a worker of a user's, and what stands for its origin.
type abroad struct {
	*rig
	p       *replica
	issuer  *issuer.Issuer
	origins *origins
	log     *await.Output
}

func newAbroad(t *testing.T, change ...func(*oscarsim.Config)) *abroad {
	t.Helper()
	n := virtual.NewNetwork(t, embedded.Config{})
	i := newIssuer(t, n)
	cfg := withUsers(i)
	for _, c := range change {
		c(&cfg)
	}
	r := newRigOn(t, n, cfg)
	a := &abroad{rig: r, issuer: i, p: newReplica("grayify"), origins: &origins{access: alice}, log: &await.Output{}}
	a.p.owner, a.p.coordinator, a.p.origin = alice, false, &there
	a.p.extra = map[string]any{"clusters": map[string]any{"oscar-cluster-z": map[string]any{"endpoint": "https://z.example.org", "ssl_verify": true}}}
	r.deliver(i.Token(alice, nil), inAnHour())
	return a
}

// lends is a syncer with a server for its OSCAR.
func (a *abroad) lends(c *syncer.Config) {
	door := world.Must(a.net.Host("syncer").ListenAt(a.t.Context(), doorAddress))(a.t)
	server := world.Must(keyserver.New(keyserver.Config{Listener: door}))(a.t)
	c.LocalURL, c.Local, c.Origins = doorURL, server, a.origins
}

// keys asks as an OSCAR does.
func (a *abroad) keys(token string) (status int, body string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, doorURL+"/system/config", http.NoBody)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Close = true
	resp, err := a.net.Host("oscar").Transport(nil).RoundTrip(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, text.String()
}

// storage is what OSCAR shows of the service's storage.
func (a *abroad) storage() (minio, asks string) {
	a.t.Helper()
	v, _ := a.sim.Service(a.p.name)
	var doc struct {
		Providers struct {
			MinIO map[string]struct{ Endpoint string } `json:"minio"`
		} `json:"storage_providers"`
		Clusters map[string]struct{ Endpoint string }
	}
	if err := json.Unmarshal(v.JSON, &doc); err != nil {
		a.t.Fatal(err)
	}
	return doc.Providers.MinIO["default"].Endpoint, doc.Clusters["oscar-cluster-z"].Endpoint
}

func readable(o *record.Observed) bool { return o.Inputs != nil && o.Inputs.Readable }

// A syncer that is started with a server for its OSCAR, or without, sends its workers'
// services anew, once; whether the storage can be used is said only of the origin's.
func TestAWorkerIsSentTheStorageOfItsOrigin(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		stop := a.start()
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady)
		own, asks := a.storage()
		if own == there.MinioEndpoint || asks != "https://z.example.org" {
			t.Fatalf("without a server it uses %s, and OSCAR asks %s", own, asks)
		}
		stop()

		stop = a.start(a.lends)
		o := a.await(a.p, record.PhaseReady, readable)
		if minio, asks := a.storage(); minio != there.MinioEndpoint || asks != doorURL || o.Storage == "" {
			t.Errorf("with one it uses %s, and OSCAR asks %s: %+v", minio, asks, o)
		}
		a.equalCalls(a.p.name, "create", "update")
		stop()
		stop = a.start(a.lends)
		a.await(a.p, record.PhaseReady, readable)
		a.eventually("the next syncer answers", func() bool { status, _ := a.keys(a.p.token); return status == 200 })
		a.equalCalls(a.p.name, "create", "update")
		stop()

		a.start()
		a.await(a.p, record.PhaseReady, func(o *record.Observed) bool { return o.Storage == "" && o.Inputs == nil })
		if minio, asks := a.storage(); minio != own || asks != "https://z.example.org" {
			t.Errorf("without one again it uses %s, and OSCAR asks %s", minio, asks)
		}
		a.equalCalls(a.p.name, "create", "update", "update")
	})
}

// The creation of a worker makes no bucket where its jobs use the origin's, so that no bucket shows its webhook.
func TestAWorkerOfTheOriginsStorageHasAWebhook(t *testing.T) {
	for name, tc := range map[string]struct {
		fault string
		calls []string
	}{
		"OSCAR dies":        {oscarsim.FaultCrash, []string{"create", "update", "update"}},
		"OSCAR is late":     {oscarsim.FaultLate, []string{"create", "update", "update"}},
		"OSCAR answers 500": {oscarsim.Fault500After, []string{"create", "update", "update"}},
		"OSCAR does it":     {"", []string{"create"}},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				a := newAbroad(t)
				a.start(a.lends)
				a.want(a.p, record.IntentPrepare)
				a.await(a.p, record.PhasePrepared)
				if tc.fault != "" {
					a.fault(oscarsim.OpCreate, tc.fault, 1)
				}
				a.want(a.p, record.IntentApply)
				o := a.await(a.p, record.PhaseReady, readable)
				if _, made := a.sim.Bucket(a.p.name); made != (tc.fault != "") || made != (len(o.BucketsMade) > 0) {
					t.Errorf("bucket made %t, reported %v", made, o.BucketsMade)
				}
				if v, _ := a.sim.Service(a.p.name); !v.Registered || v.Webhook != a.p.token {
					t.Errorf("webhook registered %t, ours %t", v.Registered, v.Webhook == a.p.token)
				}
				a.equalCalls(a.p.name, tc.calls...)
			})
		})
	}
}

// Somebody who sends a worker's jobs to another MinIO is found out.
func TestAnotherStorageIsDrift(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		a.p.buckets = nil // which somebody's PUT would make
		a.start(a.lends)
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady, readable)
		v, _ := a.sim.Service(a.p.name)
		changed := strings.ReplaceAll(string(v.JSON), there.MinioEndpoint, "https://minio.thief.example.org")
		if changed == string(v.JSON) {
			t.Fatal("nothing was changed")
		}
		a.ask(http.MethodPut, "/system/services", changed)
		a.eventually("it is repaired", func() bool { minio, _ := a.storage(); return minio == there.MinioEndpoint })
		a.await(a.p, record.PhaseReady, readable)
	})
}

// Keys are given to who shows the token of a service that is to stand here and uses the
// storage of its origin, and to nobody else; and they are the owner's, or none.
func TestWhoIsGivenKeys(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		own, admins := newReplica("mine"), newReplica("admins")
		own.owner = alice
		admins.coordinator, admins.origin = false, &there
		a.start(a.lends, func(c *syncer.Config) {
			c.Logger = slog.New(slog.NewTextHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		for _, p := range []*replica{a.p, own, admins} {
			a.want(p, record.IntentApply)
			a.await(p, record.PhaseReady)
		}
		a.await(a.p, record.PhaseReady, readable)
		status, body := a.keys(a.p.token)
		for _, part := range []string{`"access_key":"` + alice + `"`, `"secret_key":"` + secretKey + `"`, `"endpoint":"` + there.MinioEndpoint + `"`, `"region":"eu-1"`, `"verify":true`} {
			if status != 200 || !strings.Contains(body, part) {
				t.Errorf("answered %d without %s: %s", status, part, body)
			}
		}
		a.origins.mu.Lock()
		first := a.origins.asked[0]
		a.origins.mu.Unlock()
		if subject, _, err := a.issuer.Check(t.Context(), first.Token); err != nil || subject != alice {
			t.Errorf("the origin was asked with a token of %q: %v", subject, err)
		}
		first.Token = ""
		if first != (origin.Ask{Owner: alice, Cluster: "oscar-cluster-z", Endpoint: there.Endpoint, SSLVerify: true, MinIO: there.MinioEndpoint}) {
			t.Errorf("the origin was asked %+v", first)
		}
		for name, token := range map[string]string{
			"nobody's": "nobody's", "a service with its own storage": own.token, "the administrator's": admins.token,
			"the owner's, which no job is posted with": a.issuer.Token(alice, nil), "a hash": record.Mark(a.p.token),
		} {
			if status, body := a.keys(token); status != 401 || strings.Contains(body, secretKey) {
				t.Errorf("%s is answered %d", name, status)
			}
		}
		if asked, _ := a.origins.count(); asked != 1 {
			t.Errorf("the origin was asked %d times", asked)
		}
		a.want(a.p, record.IntentDelete)
		a.await(a.p, record.PhaseDeleted)
		if status, _ := a.keys(a.p.token); status != 401 {
			t.Errorf("the token of a deleted service is answered %d", status)
		}
		if strings.Contains(a.log.String(), secretKey) || strings.Contains(a.log.String(), a.p.token) {
			t.Error("the log has a secret")
		}
	})
}

// From the order to delete on a service's token opens nothing, however long its deletion
// takes.
func TestTheTokenOfATombstoneOpensNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		a.start(a.lends)
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady, readable)
		a.fault(oscarsim.OpUpdate, oscarsim.FaultHang, 0)
		a.want(a.p, record.IntentDelete)
		a.eventually("it is refused", func() bool { status, _ := a.keys(a.p.token); return status == 401 })
	})
}

// Keys that are not the owner's are not handed on, whoever gave them.
func TestKeysOfSomebodyElse(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		a.origins.access = "minio"
		a.start(a.lends)
		a.want(a.p, record.IntentApply)
		o := a.await(a.p, record.PhaseReady, func(o *record.Observed) bool { return o.Inputs != nil })
		if o.Inputs.Readable || o.Inputs.Reason != record.ReasonInputsUnreadable || !strings.Contains(o.Inputs.Message, "not the owner's") {
			t.Errorf("report %+v", o.Inputs)
		}
		if status, body := a.keys(a.p.token); status != 503 || strings.Contains(body, secretKey) {
			t.Errorf("answered %d %s", status, body)
		}
	})
}

// What a look finds is reported when it changes, and then only.
func TestTheStorageOfTheOriginIsLookedAt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		a.origins.alive = &origin.Error{Kind: origin.Unreachable, Message: "the MinIO does not answer"}
		a.start(a.lends)
		a.want(a.p, record.IntentApply)
		o := a.await(a.p, record.PhaseReady, func(o *record.Observed) bool { return o.Inputs != nil })
		if o.Inputs.Readable || o.Inputs.Reason != record.ReasonInputsUnreadable || o.Inputs.Message != "the MinIO does not answer" {
			t.Errorf("report %+v", o.Inputs)
		}
		key := record.ObservedServiceKey(clusterID, a.p.name)
		revision := func() int64 {
			kv, err := a.store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			return kv.ModRevision
		}
		at := revision()
		_, looks := a.origins.count()
		a.eventually("it is looked again", func() bool { _, now := a.origins.count(); return now >= looks+3 })
		if now := revision(); now != at {
			t.Errorf("an unchanged answer was written at %d, after %d", now, at)
		}
		a.origins.change(func(o *origins) { o.alive = nil })
		a.await(a.p, record.PhaseReady, readable)
		if asked, _ := a.origins.count(); asked != 1 {
			t.Errorf("the keys were asked for %d times", asked)
		}
	})
}

// Services whose origin does not answer do not keep another's from being looked at: without that it gets no jobs.
func TestAnOriginThatDoesNotAnswerHoldsUpNoLookAtAnother(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		a.origins.silent = "oscar-cluster-y"
		a.start(a.lends)
		var held []*replica
		for i := range 20 {
			p := newReplica(fmt.Sprint("held", i))
			elsewhere := there
			elsewhere.ClusterID, elsewhere.MinioEndpoint = a.origins.silent, fmt.Sprintf("https://minio%d.y.example.org", i)
			p.owner, p.coordinator, p.origin, p.extra = alice, false, &elsewhere, map[string]any{
				"clusters": map[string]any{a.origins.silent: map[string]any{"endpoint": "https://y.example.org", "ssl_verify": true}},
			}
			a.want(p, record.IntentApply)
			held = append(held, p)
		}
		for _, p := range held {
			a.await(p, record.PhaseReady, func(*record.Observed) bool { return true })
		}
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady, readable)
		for _, p := range held {
			if o := a.await(p, record.PhaseReady, func(*record.Observed) bool { return true }); o.Inputs != nil {
				t.Errorf("%s was given up before the other was looked at: %+v", p.name, o.Inputs)
			}
		}
	})
}

// However many jobs of one user wait for the keys of an origin that does not answer, another user's get their keys.
func TestAnOriginThatDoesNotAnswerKeepsNoKeysFromOthers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		a.origins.silent = "oscar-cluster-y"
		a.start(a.lends)
		held, elsewhere := newReplica("held"), there
		elsewhere.ClusterID = a.origins.silent
		held.owner, held.coordinator, held.origin, held.extra = "bob", false, &elsewhere, map[string]any{
			"clusters": map[string]any{a.origins.silent: map[string]any{"endpoint": "https://y.example.org", "ssl_verify": true}},
		}
		a.deliver(a.issuer.Token("bob", nil), inAnHour())
		a.want(held, record.IntentApply)
		a.await(held, record.PhaseReady)
		a.deliver(a.issuer.Token(alice, nil), inAnHour())
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady, readable)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for range 64 { // as many as the syncer answers at once
			waiting.Go(func() {
				if status, _ := a.keys(held.token); status != http.StatusServiceUnavailable {
					t.Errorf("an origin that does not answer gives %d", status)
				}
			})
		}
		<-time.After(time.Second) // those that were refused have closed their connections
		if status, _ := a.keys(a.p.token); status != http.StatusOK {
			t.Errorf("another user is answered %d", status)
		}
	})
}

// Without a token of the owner there are no keys; that is said, and a token that comes
// mends it.
func TestTheOwnersTokenHasExpired(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		a := newAbroad(t)
		stop := a.start(a.lends)
		a.want(a.p, record.IntentApply)
		a.await(a.p, record.PhaseReady, readable)
		stop()
		a.deliver(a.issuer.Token(alice, nil), time.Now().Add(-time.Second))
		holder := a.startHolder()
		a.start(a.lends)
		o := a.await(a.p, record.PhaseReady, func(o *record.Observed) bool { return !readable(o) })
		if o.Inputs.Reason != record.ReasonTokenHolderAway || !strings.Contains(o.Inputs.Message, "nobody holds it") {
			t.Errorf("report %+v", o.Inputs)
		}
		holder.give(a.issuer.Token(alice, nil), inAnHour())
		a.await(a.p, record.PhaseReady, readable)
	})
}
