package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/world"
)

const alice = "62bb11b4@egi.eu/Alice"

// withUsers is an OSCAR that lets the physicists of an issuer in.
func withUsers(i *issuer.Issuer) oscarsim.Config {
	return oscarsim.Config{Groups: []string{"physics"}, Users: func(ctx context.Context, token string) (oscarsim.User, error) {
		subject, _, err := i.Check(ctx, token)
		return oscarsim.User{Subject: subject, Name: "Alice of Physics", Groups: []string{"chess", "physics"}}, err
	}}
}

// newIssuer is an OpenID provider on a network.
func newIssuer(t *testing.T, n *virtual.Network) *issuer.Issuer {
	t.Helper()
	return issuer.Serve(t, world.Must(n.Host("issuer").Listen(t.Context()))(t), "")
}

// newUser is a replica of a user's, and the issuer of his tokens.
func newUser(t *testing.T) (*rig, *replica, *issuer.Issuer) {
	t.Helper()
	n := virtual.NewNetwork(t, embedded.Config{})
	i := newIssuer(t, n)
	r := newRigOn(t, n, withUsers(i))
	p := newReplica("grayify")
	p.owner = alice
	return r, p, i
}

// deliver sends a token to the cluster, as the control plane does.
func (r *rig) deliver(token string, expires time.Time, change ...func(*seal.Header)) {
	r.t.Helper()
	h := seal.Header{Purpose: "access_token", Cluster: clusterID, UID: "fed", Generation: 1, Expires: expires}
	for _, c := range change {
		c(&h)
	}
	sealed, err := seal.Seal(h, []byte(token), r.identity.Recipient())
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(record.TokensKey(clusterID, "fed"), record.Tokens{
		V: 1, Generation: h.Generation, Expires: record.At(expires), LifeS: int64(time.Until(expires) / time.Second), Access: sealed,
	})
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// slow is a syncer that does not look by itself in the time of a test.
func slow(c *syncer.Config) { c.Resync = never }

// A user's service is made with his token, in his namespace; everything else is
// done with the cluster's own credential, and it stays his.
func TestTheServiceOfAUserIsHis(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.start()
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		his := func(when string) {
			t.Helper()
			v, _ := r.sim.Service(p.name)
			if v.Owner != alice || v.Namespace != "oscar-svc-62bb11b4" || !strings.Contains(string(v.JSON), `"vo":"physics"`) {
				t.Errorf("%s the owner is %q, the namespace %q", when, v.Owner, v.Namespace)
			}
			if b, _ := r.sim.Bucket(p.name); b.Owner != alice {
				t.Errorf("%s the bucket is owned by %q", when, b.Owner)
			}
		}
		his("after the creation")
		p.generation, p.image = 2, "example.org/second"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		his("after a change")
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
		var by []string
		for _, c := range r.sim.Log() {
			if c.Service == p.name {
				by = append(by, c.Op+" "+c.By)
			}
		}
		want := []string{"create " + alice, "update cluster_admin", "update cluster_admin", "delete cluster_admin"}
		if !slices.Equal(by, want) {
			t.Errorf("calls %v, want %v", by, want)
		}
	})
}

func TestVoteAsksOSCARAboutTheUser(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(r *rig, i *issuer.Issuer)
		reason  record.Reason
		mention string
	}{
		{"OSCAR does not let him in", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), inAnHour())
			r.sim.Deny(alice, true)
		}, record.ReasonNotAllowed, `"oscar-cluster-a" does not accept`},
		{"OSCAR takes his token for expired", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), inAnHour())
		}, record.ReasonNotAllowed, "does not accept"},
		{"it is no token for OSCAR", func(r *rig, _ *issuer.Issuer) { r.deliver("opaque", inAnHour()) }, record.ReasonNotAllowed, "does not accept"},
		{"no token was delivered", func(*rig, *issuer.Issuer) {}, record.ReasonNeedsUserToken, "none was delivered"},
		{"the token has expired", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), time.Now().Add(-time.Second))
		}, record.ReasonNeedsUserToken, "expired at"},
		{"the token expires before it can be used", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), time.Now().Add(time.Second))
		}, record.ReasonNeedsUserToken, "expire"},
		{"the envelope is for another federation", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), inAnHour(), func(h *seal.Header) { h.UID = "another" })
		}, record.ReasonNeedsUserToken, "cannot be opened"},
		{"the envelope is for another cluster", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), inAnHour(), func(h *seal.Header) { h.Cluster = "oscar-cluster-b" })
		}, record.ReasonNeedsUserToken, "cannot be opened"},
		{"the envelope is for another purpose", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), inAnHour(), func(h *seal.Header) { h.Purpose = "refresh_token" })
		}, record.ReasonNeedsUserToken, "cannot be opened"},
		{"the envelope says that it has expired", func(r *rig, i *issuer.Issuer) {
			r.deliver(i.Token(alice, nil), inAnHour(), func(h *seal.Header) { h.Expires = time.Now().Add(-time.Minute) })
		}, record.ReasonNeedsUserToken, "cannot be opened"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				tc.prepare(r, i)
				r.start(slow)
				r.want(p, record.IntentPrepare)
				o := r.await(p, record.PhaseRefused, because(tc.reason))
				if !strings.Contains(o.Message, tc.mention) {
					t.Errorf("refused: %s", o.Message)
				}
				r.equalCalls(p.name)
				// A token that is accepted is an event, and heals it.
				r.sim.Deny(alice, false)
				r.deliver(i.Token(alice, nil), inAnHour())
				r.await(p, record.PhasePrepared)
			})
		})
	}
}

// An OSCAR without OIDC lets no user in.
func TestVoteOnAnOSCARWithoutUsers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		p := newReplica("grayify")
		p.owner = alice
		r.deliver(newIssuer(t, r.net).Token(alice, nil), inAnHour())
		r.start()
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhaseRefused, because(record.ReasonNotAllowed))
	})
}

// That OSCAR cannot tell whether it lets the user in is no answer.
func TestVoteWaitsUntilTheUserCanBeAskedAbout(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		asked := make(chan struct{}, 100)
		fails := make(chan error, 2)
		fails <- &manager.APIError{Op: manager.OpAdmits, Status: 500, Body: "error ensuring namespace"}
		fails <- &manager.APIError{Op: manager.OpAdmits, Err: errors.New("connection reset")}
		r.start(func(c *syncer.Config) {
			c.OSCAR = &doorkeeper{OSCAR: c.OSCAR, asked: asked, fails: fails}
		})
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		if len(asked) != 3 {
			t.Errorf("OSCAR was asked %d times", len(asked))
		}
	})
}

// doorkeeper notes each question whether a user is let in, and fails some.
type doorkeeper struct {
	syncer.OSCAR
	asked chan struct{}
	fails chan error
}

func (d *doorkeeper) Admits(ctx context.Context, as manager.Bearer) error {
	d.asked <- struct{}{}
	select {
	case err := <-d.fails:
		return err
	default:
		return d.OSCAR.Admits(ctx, as)
	}
}

// The votes on many services of one user cost one question: OSCAR's reads are scarce.
func TestVotesShareTheQuestionAboutAUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, _, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		asked := make(chan struct{}, 100)
		r.start(func(c *syncer.Config) { c.OSCAR = &doorkeeper{OSCAR: c.OSCAR, asked: asked, fails: make(chan error)} })
		var all []*replica
		for n := range 20 {
			p := newReplica(fmt.Sprintf("grayify%d", n))
			p.owner = alice
			all = append(all, p)
		}
		r.wantTogether(all, record.IntentPrepare)
		for _, p := range all {
			r.await(p, record.PhasePrepared)
		}
		if len(asked) != 1 {
			t.Errorf("OSCAR was asked %d times", len(asked))
		}
	})
}

// A token that expires between the vote and the creation: nothing is sent, nothing
// is tried again and again, and the next one that comes heals it.
func TestTheTokenHasExpiredWhenTheServiceIsMade(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.start(slow)
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.deliver(i.Token(alice, nil), time.Now().Add(-time.Second))
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed, because(record.ReasonNeedsUserToken))
		if o.Operation != "create" || !strings.Contains(o.Message, "any change by the owner") {
			t.Errorf("report %+v", o)
		}
		r.equalCalls(p.name)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.await(p, record.PhaseReady)
		r.equalCalls(p.name, "create")
	})
}

// A service that vanished long after its owner's token expired waits for him.
func TestAVanishedServiceNeedsItsOwner(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.start()
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.remove(record.TokensKey(clusterID, "fed"))
		r.ask("DELETE", "/system/services/"+p.name, "")
		o := r.await(p, record.PhaseDrifted, because(record.ReasonNeedsUserToken))
		if !strings.Contains(o.Message, "vanished") {
			t.Errorf("report: %s", o.Message)
		}
		r.deliver(i.Token(alice, nil), inAnHour())
		r.await(p, record.PhaseReady)
		if v, _ := r.sim.Service(p.name); v.Owner != alice {
			t.Errorf("made again for %q", v.Owner)
		}
		r.equalCalls(p.name, "create", "delete", "create")
	})
}

// A service that vanished when its owner's token has expired, which still stands in the store:
// it waits for him, and is made by itself where a refresh token gives another one.
func TestAVanishedServiceWhoseOwnersTokenHasExpired(t *testing.T) {
	for name, refreshed := range map[string]bool{"without a refresh token": false, "with one": true} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				r.deliver(i.Token(alice, nil), inAnHour())
				var later atomic.Int64
				r.start(func(c *syncer.Config) {
					c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
				})
				if refreshed {
					r.startHolder().give(i.Token(alice, nil), time.Now().Add(5*time.Hour))
				}
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseReady)
				later.Store(int64(2 * time.Hour))
				r.ask("DELETE", "/system/services/"+p.name, "")
				if !refreshed {
					o := r.await(p, record.PhaseDrifted, because(record.ReasonNeedsUserToken))
					if !strings.Contains(o.Message, "expired at") {
						t.Errorf("report: %s", o.Message)
					}
					r.deliver(i.Token(alice, nil), time.Now().Add(3*time.Hour))
				}
				r.eventually("it is made again, for him", func() bool {
					v, there := r.sim.Service(p.name)
					return there && v.Owner == alice
				})
				r.await(p, record.PhaseReady)
				r.equalCalls(p.name, "create", "delete", "create")
			})
		})
	}
}

// An access token that nothing here has needed ages all the same: from when it came, not from when it is first needed.
func TestATokenThatWasNotNeededAges(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		var later atomic.Int64
		r.start(func(c *syncer.Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		// A change by the owner brings another one, and its PUT is by the cluster's own credential.
		r.deliver(i.Token(alice, nil), inAnHour())
		p.generation, p.image = 2, "example.org/second"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		later.Store(int64(2 * time.Hour))
		r.ask("DELETE", "/system/services/"+p.name, "")
		r.await(p, record.PhaseDrifted, because(record.ReasonNeedsUserToken))
		r.equalCalls(p.name, "create", "update", "delete")
	})
}

// OSCAR refuses the user at the POST, and quotes what it was sent: no report and no
// log line has the token.
func TestThePostOfAUserIsRefused(t *testing.T) {
	for _, status := range []int{401, 403, 409} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				token := i.Token(alice, nil)
				r.deliver(token, inAnHour())
				log := &await.Output{}
				refuse := func(_ context.Context, name string, _ []byte, as manager.Bearer, _ time.Duration) error {
					return &manager.APIError{Op: manager.OpCreate, Service: name, Status: status, Body: "no: Bearer " + string(as)}
				}
				r.start(func(c *syncer.Config) {
					c.OSCAR, c.Logger = &proxy{OSCAR: c.OSCAR, create: refuse}, slog.New(slog.NewTextHandler(log, nil))
				})
				want := record.ReasonNotAllowed
				if status == 409 {
					want = record.ReasonCreateFailed
				}
				r.want(p, record.IntentApply)
				o := r.await(p, record.PhaseFailed, because(want))
				if strings.Contains(o.Message, token) || status == 409 && !strings.Contains(o.Message, "Bearer ***") {
					t.Errorf("report: %s", o.Message)
				}
				if strings.Contains(log.String(), token) {
					t.Error("the token is in the log")
				}
			})
		})
	}
}
