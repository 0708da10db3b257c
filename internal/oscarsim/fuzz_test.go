package oscarsim_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// FuzzRequests checks that no request makes the simulator panic or keep its lock, and that a list always answers.
func FuzzRequests(f *testing.F) {
	f.Add("POST", "/system/services", plain("one"))
	f.Add("PUT", "/system/services", strings.Replace(plain("seed"), `"owner"`, `"storage_providers":{"minio":{"other":null,"default":{}}},"mount":{"storage_provider":"minio.other","path":"x"},"owner"`, 1))
	f.Add("PUT", "/system/services", strings.ReplaceAll(strings.Replace(plain("seed"), `"owner"`, `"storage_providers":{"minio":{"other":null}},"owner"`, 1), "minio.default", "minio.other"))
	f.Add("DELETE", "/system/services/seed", "")
	f.Add("GET", "/system/services//", "")
	f.Add("PUT", "/_sim/faults", `{"op":"any","fault":"refuse"}`)
	f.Add("POST", "/system/buckets", `{"bucket_name":"seed/x","allowed_users":[],"metadata":null}`)
	f.Add("PUT", "/system/config", `{"allowed_image_repositories":[""]}`)
	f.Fuzz(func(t *testing.T, method, path, body string) {
		if method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || !strings.HasPrefix(path, "/") {
			return // no HTTP request
		}
		path = (&url.URL{Path: path}).EscapedPath()
		sim := oscarsim.New(oscarsim.Config{User: user, Password: password})
		if err := sim.PutService(plain("seed")); err != nil {
			t.Fatal(err)
		}
		call(t.Context(), sim, method, path, body)
		sim.ClearFaults()
		if got := call(t.Context(), sim, "GET", "/system/services", ""); got.status != 200 {
			t.Fatalf("then the list answered %+v", got)
		}
	})
}
