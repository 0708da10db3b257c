package controlplane_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// lone is a service of one cluster that stands alone.
const lone = `{"name":"lone","cluster_id":"d","image":"i","cpu":"0.5","memory":"0.5Gi","script":"s"}`

// createLone creates it with a visibility, and gives its token.
func (w *world) createLone(visibility string) (token string) {
	w.t.Helper()
	def := strings.Replace(lone, "{", `{"visibility":"`+visibility+`",`, 1)
	if _, err := w.Federations.CreateService(w.t.Context(), admin, send(w.t, def)); err != nil {
		w.t.Fatal(err)
	}
	return w.tokenOf("lone")
}

// tokenOf is the token of a service for the control plane.
func (w *world) tokenOf(service string) string {
	w.t.Helper()
	s, _, err := w.Federations.Service(w.t.Context(), admin, service, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Token
}

// adopt makes it a member of the federation.
func (w *world) adopt() {
	w.t.Helper()
	if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("d", "lone")}}); err != nil {
		w.t.Fatal(err)
	}
}

// opens demands that a token is accepted, or is not.
func (w *world) opens(when, service, token string, want bool) {
	w.t.Helper()
	if _, err := w.Tokens.ServiceCaller(w.t.Context(), service, token); err != nil && !errors.Is(err, identity.ErrUnauthenticated) || (err == nil) != want {
		w.t.Errorf("%s: %v", when, err)
	}
}

// A token that was replaced stays replaced when its service becomes a member of another federation.
func TestAReplacedTokenStaysReplacedInAnotherFederation(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		first, member := w.createLone("private"), w.tokenOf("grayifyr0")
		if _, err := w.Federations.RotateToken(t.Context(), admin, "lone", "", "", request.Repeat{}); err != nil {
			t.Fatal(err)
		}
		second := w.tokenOf("lone")
		w.adopt()
		w.opens("the token before the rotation", "lone", first, false)
		w.opens("the one after it", "lone", second, true)
		w.opens("a member's of before", "grayifyr0", member, false)
		w.opens("a member's now", "grayifyr0", w.tokenOf("grayifyr0"), true)
	})
}

// A service that becomes a member of a federation which fewer users see has another token.
func TestATokenIsReplacedWhenItsServiceIsHiddenByItsNewFederation(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		public := w.createLone("public")
		w.adopt()
		w.opens("the token that everybody could read", "lone", public, false)
		w.opens("the token now", "lone", w.tokenOf("lone"), true)
	})
}

// The generation after an adoption is above those of both services: the definitions before it are kept, ten of them.
func TestAnAdoptionOfAHigherGenerationKeepsTheHistory(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		change := func(definition string, n int) {
			t.Helper()
			s := send(t, strings.Replace(definition, "{", fmt.Sprintf(`{"labels":{"n":"%d"},`, n), 1)).Service
			if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		kept := func() (out []int64) {
			t.Helper()
			history, err := w.Federations.History(t.Context(), admin, "grayifyr0", "")
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range history {
				out = append(out, g.Generation)
			}
			return out
		}
		for n := 2; n <= 5; n++ {
			change(body, n)
		}
		w.createLone("private")
		for n := 2; n <= 40; n++ {
			change(lone, n)
		}
		w.adopt()
		if got := kept(); !slices.Equal(got, []int64{41, 5, 4, 3, 2, 1}) {
			t.Errorf("%v are kept", got)
		}
		with := strings.Replace(body, `"members":[`, `"members":[{"type":"oscar","cluster_id":"d","service_name":"lone"},`, 1)
		for n := 42; n <= 48; n++ {
			change(with, n)
		}
		if got := kept(); !slices.Equal(got, []int64{48, 47, 46, 45, 44, 43, 42, 41, 5, 4, 3}) {
			t.Errorf("%v are kept", got)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool { return len(w.keys(record.FederationsPrefix)) == 0 })
		if left := w.keys(record.HistoryPrefix); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// The refresh token of a federation that ends because its service is adopted is forgotten, not revoked, when the other
// federation has one: it may be the same.
func TestAnAdoptionRevokesNoRefreshTokenThatIsKept(t *testing.T) {
	t.Run("the other one has a token", func(t *testing.T) { holdAfterAdoption(t, true, record.HoldForget) })
	t.Run("the other one has none", func(t *testing.T) { holdAfterAdoption(t, false, record.HoldRevoke) })
}

func holdAfterAdoption(t *testing.T, kept bool, want record.HoldOrder) {
	t.Helper()
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		w.createLone("private")
		holds := func(cluster, service string) (key string) {
			v, err := w.Federations.Replicas(t.Context(), admin, service, "")
			if err != nil {
				t.Fatal(err)
			}
			key = record.HoldKey(cluster, v.UID)
			w.put(key, record.Hold{V: 1, Order: record.HoldKeep, Serial: 1, Owner: v.Owner, GivenAt: record.At(time.Now())})
			return key
		}
		key := holds("d", "lone")
		if kept {
			holds("a", "grayifyr0")
		}
		w.adopt()
		var hold *record.Hold
		w.eventually(func() bool {
			kv, err := w.store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			hold, err = store.Decode[record.Hold](kv)
			return err == nil && hold.Order != record.HoldKeep
		})
		if hold.Order != want {
			t.Errorf("the order is %q", hold.Order)
		}
	})
}

// A service that becomes a member of a federation that as many users see keeps its token.
func TestATokenStaysWhenNobodyLosesItsService(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.mustCreate()
		token := w.createLone("private")
		w.adopt()
		w.opens("its token", "lone", token, true)
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.opens("its token, after its end", "lone", token, false)
	})
}
