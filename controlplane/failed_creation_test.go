package controlplane_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestAServiceWhoseCreationFailedIsNotSaidNeverToHaveBeen(t *testing.T) {
	for name, tt := range map[string]struct {
		does func(string, *record.Desired) *record.Observed
		want string
	}{
		"refused":     {no(record.ReasonDoesNotFit), "its creation was refused"},
		"rolled back": {failing, "its creation failed and was rolled back"},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				w.clusters["c"].does(tt.does)
				if _, err := w.create(); err == nil {
					t.Fatal("it is created")
				}
				ctx := t.Context()
				for what, do := range map[string]func() error{
					"read": func() error { _, _, err := w.Federations.Service(ctx, admin, "grayifyr0", ""); return err },
					"change": func() error {
						_, err := w.Federations.ChangeReplicas(ctx, admin, "grayifyr0", federations.ReplicasRequest{Add: []oscar.Member{member("a", "other")}})
						return err
					},
					"token": func() error { _, err := w.Tokens.RefreshToken(ctx, admin, "grayifyr0", ""); return err },
					"job":   func() error { _, err := w.Jobs.Submit(ctx, admin, jobs.Request{Service: "grayifyr0"}); return err },
					"logs": func() error {
						_, err := w.Runs.JobLogs(ctx, admin, runs.LogTarget{Service: "grayifyr0"}, "")
						return err
					},
					"delete a member": func() error {
						_, err := w.Federations.DeleteService(ctx, admin, "grayifyr1", federations.DeleteOptions{})
						return err
					},
				} {
					err := do()
					if code := codeOf(t, err); code != fault.CodeNotFound || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("%s: %s: %v", what, code, err)
					}
				}
			})
		})
	}
}

func TestAServiceOfAnotherClusterIsSaidToBeThere(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		_, _, err := w.Federations.Service(t.Context(), admin, "grayifyr1", "nowhere")
		if code := codeOf(t, err); code != fault.CodeNotFound || !strings.Contains(err.Error(), `on cluster "nowhere"; there is one on: b`) {
			t.Errorf("%s: %v", code, err)
		}
	})
}

// TestACreationThatFailsIsToldBesideAnothersServiceOfItsName: its owner, who follows it or asks for it by its name,
// is told of no service that is ready, and can have it forgotten. Jobs go to the service that there is.
func TestACreationThatFailsIsToldBesideAnothersServiceOfItsName(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		alice, ctx := identity.Caller{Subject: "alice"}, t.Context()
		public := `{"name":"grayifyr0","cluster_id":"b","visibility":"public","image":"i","cpu":"0.5","memory":"0.5Gi","script":"s"}`
		if _, err := w.Federations.CreateService(ctx, admin, send(t, public)); err != nil {
			t.Fatal(err)
		}
		w.clusters["c"].does(silent)
		if _, err := w.Federations.CreateService(ctx, alice, send(t, usersBody, func(r *federations.CreateRequest) { r.Wait = 0 })); err != nil {
			t.Fatal(err)
		}
		var followed []record.Phase
		enough := errors.New("enough")
		if err := w.Federations.WatchReplicas(ctx, alice, "grayifyr0", "", 0, func(v *view.Replicas) error {
			if v.Owner != alice.Subject {
				t.Errorf("alice follows a service of %s", v.Owner)
			}
			if followed = append(followed, v.Phase); v.Phase.Result() || v.Owner != alice.Subject {
				return enough
			}
			return nil
		}); !errors.Is(err, enough) || followed[0] != record.PhasePreparing || followed[len(followed)-1] != record.PhaseAborted {
			t.Errorf("alice follows %q, %v", followed, err)
		}
		if shown, err := w.Federations.Replicas(ctx, alice, "grayifyr0", ""); err != nil || shown.Failed == nil {
			t.Errorf("alice sees %+v, %v", shown, err)
		}
		if shown, err := w.Federations.Get(ctx, alice, "grayifyr0"); err != nil || shown.Failed == nil {
			t.Errorf("alice sees %+v, %v", shown, err)
		}
		if j, err := w.Jobs.Submit(ctx, alice, jobs.Request{Service: "grayifyr0"}); err != nil || j.Owner != admin.Subject {
			t.Errorf("her job: %+v, %v", j, err)
		}
		followsOn := make(chan error)
		seen := make(chan bool, 1)
		go func() {
			followsOn <- w.Federations.WatchReplicas(ctx, alice, "grayifyr0", "", 0, func(v *view.Replicas) error {
				if v.Owner != alice.Subject {
					return enough
				}
				seen <- true
				return nil
			})
		}()
		<-seen
		if _, err := w.Federations.DeleteService(ctx, alice, "grayifyr0", federations.DeleteOptions{}); err != nil {
			t.Error("it is forgotten:", err)
		}
		if err := <-followsOn; codeOf(t, err) != fault.CodeNotFound {
			t.Errorf("who follows it is told %v", err)
		}
		if shown, err := w.Federations.Replicas(ctx, alice, "grayifyr0", ""); err != nil || shown.Owner != admin.Subject {
			t.Errorf("once it is forgotten alice sees %+v, %v", shown, err)
		}
	})
}
