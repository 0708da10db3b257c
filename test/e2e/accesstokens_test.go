package e2e_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

const alice = "62bb11b4/Alice@egi.eu"

// usersBody is body with the refresh token that a user's federation needs.
func usersBody() string {
	return strings.Replace(body, `"KEY":`, `"refresh_token":"canary-refresh-token","KEY":`, 1)
}

// nobodysTurn is body without delegation, so that no refresh token is held that an
// access token could be had with.
func nobodysTurn() string { return strings.Replace(body, `"mesh"`, `"none"`, 1) }

// newIssuer is a provider on a host of its own.
func newIssuer(t *testing.T, net *wire.Network) *issuer.Issuer {
	t.Helper()
	return issuer.Serve(t, world.Must(net.Host("issuer").Listen(t.Context()))(t), "")
}

// withUsers is a world that alice may use.
func withUsers(t *testing.T, mutate ...func(*world.Options)) *world.World {
	t.Helper()
	w := newWorld(t, append(mutate, func(o *world.Options) { o.Issuer = newIssuer(t, o.Wire) })...)
	w.AddUser(alice, "chess")
	return w
}

func createAs(w *world.World, token, body string, opts client.CreateOptions) error {
	w.T.Helper()
	opts.Wait = time.Minute
	_, err := w.WithToken(token).CreateService(w.T.Context(), world.Service(w.T, body), opts)
	return err
}

// his says whether a cluster has alice's service, as hers.
func his(w *world.World, i int, id string) bool {
	v, ok := w.Cluster(id).Sim.Service(names[i])
	return ok && v.Owner == alice && v.Namespace == "oscar-svc-62bb11b4"
}

// accessTokens lists the records of access tokens on all clusters.
func accessTokens(w *world.World) []string {
	var out []string
	for _, id := range []string{a, b, c} {
		for _, key := range w.Keys(record.TokensPrefix(id)) {
			if record.ParseKey(key).Kind == record.KindTokens {
				out = append(out, key)
			}
		}
	}
	return out
}

// A user creates, changes and deletes over clusters that check his token. The service
// is his on each of them; his token does no more than make it, and can be read nowhere.
func TestAUserCreatesOverClustersThatCheckHisToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		token := w.Token(alice, nil)
		if err := createAs(w, token, usersBody(), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{a, b, c} {
			if !his(w, i, id) {
				v, _ := w.Cluster(id).Sim.Service(names[i])
				t.Errorf("%s: owner %q, namespace %q", id, v.Owner, v.Namespace)
			}
		}
		if n := len(accessTokens(w)); n != 3 {
			t.Errorf("%d clusters have her token", n)
		}
		user := w.WithToken(token)
		changed := world.Service(t, strings.Replace(body, `"10"`, `"20"`, 1))
		if _, err := user.ChangeService(t.Context(), changed, client.ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the change is applied, and it is hers still", func() bool {
			return ready(w) && his(w, 0, a) && his(w, 1, b) && his(w, 2, c)
		})
		if _, err := user.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("everything is gone", func() bool { return gone(w) })
		for i, id := range []string{a, b, c} {
			for _, call := range w.Cluster(id).Sim.Log() {
				if want := map[string]string{"create": alice}[call.Op]; call.Service == names[i] && call.By != want && (want != "" || call.By != "cluster_admin") {
					t.Errorf("%s: %s was done by %s", id, call.Op, call.By)
				}
			}
		}
		if left := accessTokens(w); len(left) > 0 {
			t.Errorf("her token is kept: %v", left)
		}
		if strings.Contains(w.Log.String(), token) {
			t.Error("her token is in a log")
		}
		if file := fileWith(t, w.EtcdDir, token); file != "" {
			t.Errorf("her token is in %s", file)
		}
	})
}

// A cluster that does not accept the user: nothing is made anywhere, and the answer
// names it.
func TestAClusterThatDoesNotAcceptTheUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		w.Cluster(b).Sim.Deny(alice, true)
		err := createAs(w, w.Token(alice, nil), usersBody(), client.CreateOptions{})
		if codeOf(err) != "failed_precondition" || !strings.Contains(err.Error(), b+"/"+names[1]) || !strings.Contains(err.Error(), "does not accept") {
			t.Fatalf("the answer is %v", err)
		}
		for i, id := range []string{a, b, c} {
			if slices.Contains(w.Cluster(id).Sim.Services(), names[i]) {
				t.Errorf("%s has the service", id)
			}
		}
		if left := accessTokens(w); len(left) > 0 {
			t.Errorf("her token is kept: %v", left)
		}
		w.Cluster(b).Sim.Deny(alice, false)
		if err := createAs(w, w.Token(alice, nil), usersBody(), client.CreateOptions{}); err != nil {
			t.Fatalf("once the cluster accepts her: %v", err)
		}
	})
}

// An OSCAR that refuses the user after its vote: everything is rolled back.
func TestAClusterThatChangesItsMindAboutTheUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		if err := w.Cluster(c).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultDeny}); err != nil {
			t.Fatal(err)
		}
		err := createAs(w, w.Token(alice, nil), usersBody(), client.CreateOptions{})
		if codeOf(err) != "replica_failed" || !strings.Contains(err.Error(), c+"/"+names[2]) {
			t.Fatalf("the answer is %v", err)
		}
		w.Eventually("everything is rolled back", func() bool { return gone(w) })
	})
}

// withSecrets is a world that alice may use, whose syncers see Secrets.
func withSecrets(t *testing.T) (w *world.World) {
	t.Helper()
	w = withUsers(t, func(o *world.Options) {
		o.ControlPlane = func(c *controlplane.Config) { c.ApplyGrace = 5 * time.Second }
		o.Syncer = func(c *syncer.Config) {
			id := c.ClusterID
			c.LateWindow = time.Minute
			c.Kube = world.Secrets{Of: func() *oscarsim.Sim { return w.Cluster(id).Sim }}
		}
	})
	return w
}

// secretAlone says whether alice's service has a Secret on a cluster, and does not stand there.
func secretAlone(w *world.World, id, name string) bool {
	_, stands := w.Cluster(id).Sim.Service(name)
	_, secret := w.Cluster(id).Sim.State().Secrets[kube.Namespace(kube.ServicesNamespace, alice)+"/"+name]
	return secret && !stands
}

// diesBesideSecret has alice create a service whose OSCAR on cluster b dies when it has made the Secret.
func diesBesideSecret(w *world.World, body string) (created <-chan error) {
	w.T.Helper()
	at := w.Cluster(b)
	if err := at.Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultCrashSecret, Count: 1}); err != nil {
		w.T.Fatal(err)
	}
	outcome := make(chan error, 1)
	go func() { outcome <- createAs(w, w.Token(alice, nil), body, client.CreateOptions{}) }()
	w.Eventually("its Secret is alone", func() bool { return secretAlone(w, b, names[1]) })
	at.OscarDies()
	return outcome
}

// An OSCAR dies when it has made the Secret of a user's service, and is away until the creation is taken back. Then that
// goes, too, which takes her token, and she can create it again.
func TestTheSecretOfACreationThatIsTakenBackGoes(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withSecrets(t)
		at := w.Cluster(b)
		created := diesBesideSecret(w, usersBody())
		alone := func() bool { return secretAlone(w, b, names[1]) }
		if err := <-created; err == nil {
			t.Fatal("it is created without an OSCAR")
		}
		w.Eventually("it is taken back on the others", func() bool { return phase(w) == record.PhaseRolledBack })
		at.OscarLives()
		w.Eventually("it is taken back there", func() bool { return gone(w) })
		if alone() {
			t.Error("the Secret is left")
		}
		if left := accessTokens(w); len(left) > 0 {
			t.Errorf("her token is kept: %v", left)
		}
		if err := createAs(w, w.Token(alice, nil), usersBody(), client.CreateOptions{}); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
}

// An OSCAR dies in the DELETE of a user's service and leaves its Secret: it goes with the token that came with her order,
// whether all of the federation is deleted or one member.
func TestTheSecretOfAUsersServiceThatIsDeletedGoes(t *testing.T) {
	for name, remove := range map[string]func(*world.World, *client.Client) error{
		"all of it": func(w *world.World, user *client.Client) error {
			_, err := user.DeleteService(w.T.Context(), names[0], client.DeleteOptions{})
			return err
		},
		"one member": func(w *world.World, user *client.Client) error {
			_, err := user.DeleteService(w.T.Context(), names[1], client.DeleteOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := withSecrets(t)
				if err := createAs(w, w.Token(alice, nil), usersBody(), client.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{a, b, c} {
					forgetToken(w, id)
				}
				if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpDelete, Fault: oscarsim.FaultCrashSecret, Count: 1}); err != nil {
					t.Fatal(err)
				}
				if err := remove(w, w.WithToken(w.Token(alice, nil))); err != nil {
					t.Fatal(err)
				}
				w.Eventually("it is gone there", func() bool { return len(w.Keys(record.DesiredServiceKey(b, names[1]))) == 0 })
				if secretAlone(w, b, names[1]) {
					t.Error("the Secret is left")
				}
				if left := accessTokens(w); len(w.Keys(record.FederationsPrefix)) == 0 && len(left) > 0 {
					t.Errorf("her token is kept: %v", left)
				}
			})
		})
	}
}

// Her token is over when a creation is taken back whose OSCAR has left a Secret: it stays, and her next creation
// overwrites it.
func TestASecretThatWasLeftIsOverwritten(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withSecrets(t)
		at := w.Cluster(b)
		created := diesBesideSecret(w, nobodysTurn())
		forgetToken(w, b)
		if err := <-created; err == nil {
			t.Fatal("it is created without an OSCAR")
		}
		at.OscarLives()
		w.Eventually("it is taken back", func() bool { return gone(w) })
		if !secretAlone(w, b, names[1]) {
			t.Error("the Secret is gone without a token")
		}
		if err := createAs(w, w.Token(alice, nil), nobodysTurn(), client.CreateOptions{}); err != nil {
			t.Fatalf("once more: %v", err)
		}
		if v, _ := at.Sim.Service(names[1]); v.Secrets["KEY"] == "" {
			t.Error("it has no secret")
		}
	})
}

// phase is that of the only federation.
func phase(w *world.World) record.Phase {
	w.T.Helper()
	keys := w.Keys(record.FederationsPrefix)
	if len(keys) != 1 {
		return ""
	}
	f, err := store.Decode[record.Federation](world.Must(w.Store.Get(w.T.Context(), keys[0]))(w.T))
	if err != nil {
		w.T.Fatal(err)
	}
	return f.Phase
}

// A token that would expire before it is used is refused with what to do about it, and
// nothing is stored.
func TestATokenThatExpiresSoonIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		before := w.Revision()
		soon := w.Token(alice, map[string]any{"exp": time.Now().Add(20 * time.Second).Unix()})
		err := createAs(w, soon, usersBody(), client.CreateOptions{})
		if codeOf(err) != "failed_precondition" || !strings.Contains(err.Error(), "get a fresh one") {
			t.Fatalf("the answer is %v", err)
		}
		if left := w.Keys(record.FederationsPrefix); len(left) > 0 {
			t.Errorf("after revision %d there is %v", before, left)
		}
	})
}

// A member that was away until the token was gone: it waits for the owner,
// whose next request helps, even if it changes nothing.
func TestAMemberThatCameTooLateForTheToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		w.Cluster(c).Stop()
		if err := createAs(w, w.Token(alice, nil), nobodysTurn(), client.CreateOptions{Deployment: "best-effort"}); err != nil {
			t.Fatal(err)
		}
		forgetToken(w, c)
		w.Cluster(c).Start(func(s *syncer.Config) { s.Resync = time.Hour })
		w.Eventually("it needs her token", func() bool { return reasonAt(w, c) == string(record.ReasonNeedsUserToken) })
		same := world.Service(t, strings.Replace(nobodysTurn(), `"topology"`, `"deployment":"best-effort","topology"`, 1))
		if _, err := w.Client.ChangeService(t.Context(), same, client.ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := reasonAt(w, c); got != string(record.ReasonNeedsUserToken) {
			t.Errorf("after the administrator's request it is %q", got)
		}
		if _, err := w.WithToken(w.Token(alice, nil)).ChangeService(t.Context(), same, client.ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("it is made, for her", func() bool { return his(w, 2, c) && ready(w) })
		if v, err := w.Client.Replicas(t.Context(), names[0], ""); err != nil || v.Generation != 1 {
			t.Errorf("generation %d, %v: nothing was changed", v.Generation, err)
		}
	})
}

// A service that vanished when its owner's token was gone.
func TestAVanishedServiceOfAUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		if err := createAs(w, w.Token(alice, nil), nobodysTurn(), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		forgetToken(w, b)
		w.DeleteDirectly(w.Cluster(b).URL + "/system/services/" + names[1])
		w.Eventually("it needs her token", func() bool { return reasonAt(w, b) == string(record.ReasonNeedsUserToken) })
		if _, err := w.WithToken(w.Token(alice, nil)).ChangeService(t.Context(), world.Service(t, nobodysTurn()), client.ChangeOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("it is made again, for her", func() bool { return his(w, 1, b) && ready(w) })
		if got := accessTokens(w); len(got) != 3 {
			t.Errorf("tokens at %v", got)
		}
	})
}

// forgetToken takes a token away that has expired, as the clean-up does.
func forgetToken(w *world.World, id string) {
	w.T.Helper()
	_, err := w.Store.Update(w.T.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range accessTokens(w) {
			if record.ParseKey(key).Cluster == id {
				tx.Delete(key)
			}
		}
		return nil
	}})
	if err != nil {
		w.T.Fatal(err)
	}
}

// reasonAt is the reason of the federation's replica on a cluster, as the administrator
// sees it.
func reasonAt(w *world.World, id string) string {
	w.T.Helper()
	f, err := w.Client.Federation(w.T.Context(), names[0])
	if err != nil {
		return ""
	}
	for _, m := range f.Replicas {
		if m.ClusterID == id && m.Status != nil {
			return m.Status.Reason
		}
	}
	return ""
}

// allowed_groups of a registration decide where users place, before anything is
// written. What stands is left alone, and the administrator passes.
func TestAllowedGroupsRestrictPlacement(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		restrict := func(groups ...string) {
			t.Helper()
			_, err := w.Client.UpdateCluster(t.Context(), v1.ClusterSpec{ClusterID: b, Endpoint: w.Cluster(b).URL, AllowedGroups: groups})
			if err != nil {
				t.Fatal(err)
			}
		}
		restrict("biology", "medicine")
		token := w.Token(alice, nil)
		status, _, text := w.Raw("POST", "/system/services", usersBody(), "Bearer "+token, "Accept", "application/problem+json")
		var problem v1.Problem
		if err := json.Unmarshal([]byte(text), &problem); err != nil || status != 400 || len(problem.Violations) != 1 {
			t.Fatalf("%d %s", status, text)
		}
		if v := problem.Violations[0]; v.Rule != "allowed_cluster" || v.Path != "federation.members[0].cluster_id" ||
			!strings.Contains(v.Message, `"biology", "medicine"`) || strings.Contains(v.Message, "known: "+a+", "+b) {
			t.Errorf("violation %+v", v)
		}
		if left := w.Keys(record.FederationsPrefix); len(left) > 0 {
			t.Errorf("there is %v", left)
		}
		restrict("chess")
		if err := createAs(w, token, usersBody(), client.CreateOptions{}); err != nil {
			t.Fatalf("a member of one of the groups: %v", err)
		}
		restrict("biology")
		user := w.WithToken(token)
		if _, err := user.ChangeService(t.Context(), world.Service(t, strings.Replace(body, `"10"`, `"30"`, 1)), client.ChangeOptions{}); err != nil {
			t.Errorf("a change of what stands: %v", err)
		}
		another := oscar.Member{Type: "oscar", ClusterID: b, ServiceName: "grayifyr3"}
		if _, err := user.AddReplicas(t.Context(), names[0], []oscar.Member{another}, client.ChangeOptions{}); codeOf(err) != "invalid" {
			t.Errorf("a new member there: %v", err)
		}
		alone := `{"name":"grayifyr9","cluster_id":"oscar-cluster-b","image":"i","script":"s"}`
		if _, err := create(w, alone); err != nil {
			t.Errorf("the administrator: %v", err)
		}
	})
}

// A user's federation delegates with his refresh token, so it needs one, and the
// answer is OSCAR's own.
func TestAUsersFederationNeedsARefreshToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		token := w.Token(alice, nil)
		for name, tt := range map[string]struct {
			body   string
			status int
		}{
			"a mesh without one":      {body, 400},
			"a star without one":      {strings.Replace(body, `"mesh"`, `"star"`, 1), 400},
			"an empty one":            {strings.Replace(usersBody(), "canary-refresh-token", " ", 1), 400},
			"topology none":           {strings.Replace(body, `"mesh"`, `"none"`, 1), 201},
			"nobody to delegate to":   {`{"name":"grayifyr9","image":"i","script":"s"}`, 201},
			"with a token, elsewhere": {strings.NewReplacer("grayifyr", "other", `"KEY":`, `"refresh_token":"canary-refresh-token","KEY":`).Replace(body), 201},
		} {
			status, _, text := w.Raw("POST", "/system/services", tt.body, "Bearer "+token)
			if status != tt.status || status == 400 && text != "refresh_token secret is required for federated services" {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
		// What was alone, or delegated nothing, may not begin to without one.
		mesh := world.Service(t, body)
		if _, err := w.WithToken(token).ChangeService(t.Context(), mesh, client.ChangeOptions{}); codeOf(err) != "invalid" {
			t.Errorf("from none to mesh: %v", err)
		}
		if _, err := w.Client.ChangeService(t.Context(), mesh, client.ChangeOptions{}); err != nil {
			t.Errorf("the administrator: %v", err)
		}
	})
}
