package syncer_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// vault is a place for tokens in which a test can do something as one is deleted.
type vault struct {
	token.Memory
	mu       sync.Mutex
	deleting func(really func() error) error
	// getting fails the reads that come next.
	getting []error
}

func (v *vault) Get(ctx context.Context, owner, federation string) (*token.Stored, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.getting) > 0 {
		err := v.getting[0]
		v.getting = v.getting[1:]
		return nil, err
	}
	return v.Memory.Get(ctx, owner, federation)
}

func (v *vault) Delete(ctx context.Context, owner, federation string, version int64) error {
	v.mu.Lock()
	instead := v.deleting
	v.deleting = nil
	v.mu.Unlock()
	really := func() error { return v.Memory.Delete(ctx, owner, federation, version) }
	if instead != nil {
		return instead(really)
	}
	return really()
}

// holding is the report about the one token that there is; nil for none.
func (r *rig) holding() *record.Holding {
	r.t.Helper()
	kv, err := r.store.Get(r.t.Context(), record.HoldingKey(clusterID, "fed"))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := store.Decode[record.Holding](kv)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// hold gives the cluster a refresh token, and waits until it is stored.
func (r *rig) hold(p *replica, serial int64, refresh string) *record.Hold {
	r.t.Helper()
	sealed, err := seal.Seal(seal.Header{Purpose: "refresh_token", Cluster: clusterID, UID: "fed", Generation: serial}, []byte(refresh), r.identity.Recipient())
	if err != nil {
		r.t.Fatal(err)
	}
	order := &record.Hold{V: 1, Order: record.HoldKeep, Serial: serial, Owner: p.owner, GivenAt: record.At(time.Now()), Refresh: sealed}
	r.put(record.HoldKey(clusterID, "fed"), order)
	r.eventually("it is stored", func() bool {
		h := r.holding()
		return h != nil && h.Serial == serial && h.State == record.HoldStored
	})
	return order
}

// A readmission deletes the report of a token that has left the store, and a report may be damaged:
// a token that is kept was said to be lost.
func TestATokenThatIsKeptIsReportedAsLost(t *testing.T) {
	for name, c := range map[string]struct {
		report func(r *rig)
		kept   int64 // the serial of what the vault has; 0 for nothing
		fails  []error
		want   record.HoldState
	}{
		"the report is deleted": {report: (*rig).unreport, kept: 7, want: record.HoldStored},
		"the report is damaged": {report: func(r *rig) {
			if _, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				tx.PutBytes(record.HoldingKey(clusterID, "fed"), []byte("{"))
				return nil
			}}); err != nil {
				r.t.Fatal(err)
			}
		}, kept: 7, want: record.HoldStored},
		"a later one is kept":         {report: (*rig).unreport, kept: 8, want: record.HoldStored},
		"the vault is away at first":  {report: (*rig).unreport, kept: 7, fails: []error{errors.New("the API server is away")}, want: record.HoldStored},
		"it is damaged":               {report: (*rig).unreport, kept: 7, fails: slices.Repeat([]error{token.ErrDamaged}, 100), want: record.HoldLost},
		"there is no vault any more":  {report: (*rig).unreport, kept: 7, fails: slices.Repeat([]error{token.ErrNoVault}, 100), want: record.HoldLost},
		"only an earlier one is kept": {report: (*rig).unreport, kept: 6, want: record.HoldLost},
		"none is kept":                {report: (*rig).unreport, want: record.HoldLost},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				iss, place := newIssuer(t, r.net), &vault{}
				r.start(func(c *syncer.Config) {
					c.Vault, c.Issuers = place, []token.Issuer{{URL: iss.URL, ClientID: "oscarfed"}}
				})
				p := newReplica("grayify")
				r.makeReady(p)
				order := r.hold(p, 7, iss.RefreshToken("cluster_admin"))
				order.Refresh = "" // it was reported as stored
				r.put(record.HoldKey(clusterID, "fed"), order)
				if c.kept != 7 {
					if err := place.Memory.Delete(t.Context(), p.owner, "fed", 1); err != nil {
						t.Fatal(err)
					}
				}
				if c.kept != 7 && c.kept != 0 {
					if err := place.Put(t.Context(), p.owner, "fed", &token.Stored{Version: 1, Serial: c.kept, Refresh: "another"}); err != nil {
						t.Fatal(err)
					}
				}
				place.mu.Lock()
				place.getting = c.fails
				place.mu.Unlock()
				c.report(r)
				var said record.HoldState
				r.eventually("it is reported again", func() bool {
					kv, err := r.store.Get(r.t.Context(), record.HoldingKey(clusterID, "fed"))
					if err != nil {
						return false
					}
					h, err := store.Decode[record.Holding](kv)
					if err != nil {
						return false
					}
					said = h.State
					return true
				})
				if said != c.want {
					t.Errorf("reported as %s, want %s", said, c.want)
				}
			})
		})
	}
}

func (r *rig) unreport() { r.remove(record.HoldingKey(clusterID, "fed")) }

// A token was revoked and deleted, and the report of it was not written, or the order
// was carried out once more before it was heard of: "no token was there, not revoked"
// was said of a token that the issuer had revoked.
func TestARevokedTokenIsReportedAsNotRevoked(t *testing.T) {
	for name, interrupt := range map[string]func(r *rig, really func() error) error{
		"the session ends before the report": func(r *rig, really func() error) error {
			err := really()
			r.revokeSession()
			return err
		},
		"the answer of the deletion is lost": func(_ *rig, really func() error) error {
			return errors.Join(really(), errors.New("the connection was closed"))
		},
		"the deletion fails": func(*rig, func() error) error { return errors.New("the API server is away") },
		"the order is heard of again meanwhile": func(r *rig, really func() error) error {
			kv, err := r.store.Get(r.t.Context(), record.HoldKey(clusterID, "fed"))
			if err != nil {
				return err
			}
			order, err := store.Decode[record.Hold](kv)
			if err != nil {
				return err
			}
			order.RequestID = "the same again"
			r.put(record.HoldKey(clusterID, "fed"), order)
			return really()
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				iss, place := newIssuer(t, r.net), &vault{}
				place.deleting = func(really func() error) error { return interrupt(r, really) }
				r.start(func(c *syncer.Config) {
					c.Vault, c.Issuers = place, []token.Issuer{{URL: iss.URL, ClientID: "oscarfed"}}
				})
				p := newReplica("grayify")
				r.makeReady(p)
				refresh := iss.RefreshToken("cluster_admin")
				order := r.hold(p, 7, refresh)

				end := order.Ended(record.HoldRevoke, time.Now())
				r.put(record.HoldKey(clusterID, "fed"), end)
				r.eventually("it is deleted", func() bool { h := r.holding(); return h.Serial == end.Serial && h.State == record.HoldEnded })
				if h := r.holding(); !h.Revoked || h.Message != "" || !iss.Revoked(refresh) {
					t.Errorf("reported %+v; revoked at the issuer: %t", h, iss.Revoked(refresh))
				}
				if _, err := place.Get(t.Context(), p.owner, "fed"); !errors.Is(err, token.ErrNone) {
					t.Errorf("it is still kept: %v", err)
				}
			})
		})
	}
}

// TestARevocationThatAReadmissionHasForgottenIsReported: the order says what was reported.
func TestARevocationThatAReadmissionHasForgottenIsReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.Vault = &vault{} })
		r.put(record.HoldKey(clusterID, "fed"), &record.Hold{V: 1, Order: record.HoldRevoke, Serial: 7, Owner: "cluster_admin", Revoked: true})
		r.eventually("it is over", func() bool { h := r.holding(); return h != nil && h.State == record.HoldEnded })
		if h := r.holding(); !h.Revoked || h.Message != "" {
			t.Errorf("reported %+v", h)
		}
	})
}

// The store was restored to an order to revoke a token, and another one had been given since: that one stays, until it
// is ordered again.
func TestATokenThatWasGivenAfterTheOrderIsRevokedByTheNext(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		iss, place := newIssuer(t, r.net), &vault{}
		r.start(func(c *syncer.Config) {
			c.Vault, c.Issuers = place, []token.Issuer{{URL: iss.URL, ClientID: "oscarfed"}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		refresh := iss.RefreshToken("cluster_admin")
		order := r.hold(p, 7, refresh)

		end := *order
		end.Order, end.Serial, end.Refresh = record.HoldRevoke, 6, ""
		r.remove(record.HoldingKey(clusterID, "fed"))
		r.put(record.HoldKey(clusterID, "fed"), end)
		r.eventually("it is told", func() bool { h := r.holding(); return h.KeepsLater() && h.Serial == 6 })
		if iss.Revoked(refresh) {
			t.Error("it is revoked")
		}
		next := end.Ended(record.HoldRevoke, time.Now())
		r.put(record.HoldKey(clusterID, "fed"), next)
		r.eventually("it is deleted", func() bool { h := r.holding(); return h.Serial == next.Serial && h.State == record.HoldEnded })
		if h := r.holding(); !h.Revoked || h.Reason != "" || !iss.Revoked(refresh) {
			t.Errorf("reported %+v", h)
		}
	})
}

// A token that gave no access token is reported as failing as long as one is needed. After that it is not tried, and the
// report says so, until one is needed again.
func TestATokenFailsAsLongAsOneIsNeeded(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		iss := newIssuer(t, r.net)
		r.start(func(c *syncer.Config) {
			c.Vault, c.Issuers = &vault{}, []token.Issuer{{URL: iss.URL, ClientID: "oscarfed"}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		r.hold(p, 7, iss.RefreshToken("cluster_admin"))
		var away atomic.Bool
		var tries atomic.Int64
		iss.Grant(issuer.Grants{Before: func() int {
			tries.Add(1)
			if away.Load() {
				return http.StatusBadGateway
			}
			return 0
		}})
		member, ask := newIdentity(t), record.TokenAskKey(clusterID, "fed", "oscar-cluster-b")
		reported := func(state record.HoldState) *record.Holding {
			t.Helper()
			r.eventually("it is "+string(state), func() bool { return r.holding().State == state })
			return r.holding()
		}

		away.Store(true)
		r.put(ask, record.TokenAsk{V: 1, Nonce: "first", Recipient: member.Recipient(), AskedAt: record.At(time.Now())})
		if h := reported(record.HoldFailing); h.Reason != record.ReasonTokenHolderAway || !strings.HasSuffix(h.Message, "502; it is tried again") {
			t.Errorf("reported %+v", h)
		}
		<-time.After(10 * time.Minute) // of the test's clock
		if h := r.holding(); h.State != record.HoldFailing || tries.Load() < 5 {
			t.Errorf("reported %+v after %d tries", h, tries.Load())
		}
		r.remove(ask)
		if h := reported(record.HoldStored); h.Reason != "" || !strings.HasSuffix(h.Message, "502; it is tried again when one is needed") {
			t.Errorf("reported %+v", h)
		}
		before := tries.Load()
		<-time.After(time.Hour)
		if tries.Load() != before {
			t.Errorf("it is tried although nothing needs it")
		}
		away.Store(false)
		r.put(ask, record.TokenAsk{V: 1, Nonce: "second", Recipient: member.Recipient(), AskedAt: record.At(time.Now())})
		r.eventually("the report is of the last use", func() bool { h := r.holding(); return h.State == record.HoldStored && h.Message == "" })
	})
}

// damaged is a place in Kubernetes where what is kept is no token.
type damaged struct {
	kube.Absent
	mu   sync.Mutex
	kept *kube.Token // nil while it is damaged
	gone bool
}

func (d *damaged) Token(context.Context, string, string) (*kube.Token, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.gone:
		return nil, kube.ErrNoToken
	case d.kept == nil:
		return nil, kube.ErrTokenDamaged
	}
	return d.kept, nil
}

func (d *damaged) PutToken(_ context.Context, _, _ string, t kube.Token) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = &t
	return nil
}

func (d *damaged) DeleteToken(context.Context, string, string, int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	return nil
}

// What was kept had been damaged by hand: the one that its owner gave instead was never stored, and
// a deletion waited for ever.
func TestADamagedTokenKeepsTheNextOneOut(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		iss, place := newIssuer(t, r.net), &damaged{}
		r.start(func(c *syncer.Config) {
			c.Vault, c.Issuers = ownertoken.NewKubeVault(place, time.Now), []token.Issuer{{URL: iss.URL, ClientID: "oscarfed"}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		order := r.hold(p, 7, iss.RefreshToken("cluster_admin"))

		place.mu.Lock()
		place.kept = nil
		place.mu.Unlock()
		end := order.Ended(record.HoldRevoke, time.Now())
		r.put(record.HoldKey(clusterID, "fed"), end)
		r.eventually("it is deleted", func() bool { h := r.holding(); return h.Serial == end.Serial && h.State == record.HoldEnded })
		if h := r.holding(); h.Revoked || !strings.Contains(h.Unrevoked, "could not be read") || !place.gone {
			t.Errorf("reported %+v; deleted: %t", h, place.gone)
		}
	})
}
