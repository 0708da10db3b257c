package oscarsim_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/oscarsim/contract"
)

func TestContract(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{ClusterID: "contract"})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	// Registered before the suite's own clean-up, so it runs after it.
	t.Cleanup(func() {
		if st := sim.State(); len(st.Services)+len(st.Buckets)+len(st.Secrets)+len(st.Jobs) > 0 {
			t.Errorf("left behind: services %v, buckets %v, secrets %v, jobs %v", sim.Services(), sim.Buckets(), st.Secrets, st.Jobs)
		}
	})
	contract.RunContract(t, contract.Target{
		URL: url, User: user, Password: password, Prefix: "ct0",
		Client: &http.Client{Transport: transport, Timeout: time.Minute},
	})
}
