package controlplane_test

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/runs"
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
