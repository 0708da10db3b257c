package oscarsim_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/oscarsim/contract"
)

// physicist is the user of a token that is his subject between dots.
func physicist(_ context.Context, token string) (oscarsim.User, error) {
	subject, ok := strings.CutPrefix(token, "sim.")
	if !ok {
		return oscarsim.User{}, errors.New("no token of ours")
	}
	subject, _ = strings.CutSuffix(subject, ".z")
	return oscarsim.User{Subject: subject, Name: "A User", Groups: []string{"physics"}}, nil
}

// Without OIDC, and with it for users of EGI, whose subjects have an @, and others.
func TestContract(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   oscarsim.Config
		token string
	}{
		"without users":     {oscarsim.Config{}, ""},
		"with users":        {oscarsim.Config{Users: physicist, Groups: []string{"physics"}}, "sim.62bb11b4.z"},
		"with long ids":     {oscarsim.Config{Users: physicist, Groups: []string{"physics"}}, "sim.62bb11b4c0ffee.z"},
		"with users of EGI": {oscarsim.Config{Users: physicist, Groups: []string{"physics"}}, "sim.62bb11b4@egi-eu.z"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.ClusterID = "contract"
			contractHolds(t, c.cfg, c.token)
		})
	}
}

func contractHolds(t *testing.T, cfg oscarsim.Config, token string) {
	t.Helper()
	sim, url := serve(t, cfg)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	// Registered before the suite's own clean-up, so it runs after it.
	t.Cleanup(func() {
		st := sim.State()
		// OSCAR never takes the keys of an origin away.
		maps.DeleteFunc(st.Secrets, func(name string, _ map[string]string) bool { return strings.Contains(name, "-origin-minio-elsewhere") })
		if len(st.Services)+len(st.Buckets)+len(st.Secrets)+len(st.Jobs) > 0 {
			t.Errorf("left behind: services %v, buckets %v, secrets %v, jobs %v", sim.Services(), sim.Buckets(), st.Secrets, st.Jobs)
		}
	})
	contract.Run(t, contract.Target{
		URL: url, User: user, Password: password, Token: token, Prefix: "ct0",
		Client: &http.Client{Transport: transport, Timeout: time.Minute},
	})
}
