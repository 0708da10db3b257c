package server_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// Clients of OSCAR ask for the configuration first, some with a slash at the end; they want an
// array of groups and a provider, and get no credentials of other users.
func TestConfigIsInOscarsFormWithoutCredentials(t *testing.T) {
	c := newClient(t, &fake{})
	for _, path := range []string{"/system/config", "/system/config/"} {
		want(t, c.do("GET", path, ""), 200, jsonType,
			`{"config":{"name":"oscar","namespace":"","services_namespace":"","controller_service_account":"","gpu_available":false,`+
				`"interLink_available":false,"yunikorn_enable":false,"kueue_enable":false,"volume_enable":false,"oidc_groups":[],"minio_quota_enabled":false},`+
				`"minio_provider":{"endpoint":"https://minio.example.org","verify":true,"access_key":"","secret_key":"","region":"us-east-1"},"allowed_image_repositories":[]}`)
	}
}

// oscar-cli service put-file, get-file and list-files, the storage client of oscar_python
// and the dashboard ask for the keys of minio.default in this way, and name no cluster.
func TestFilesOfAServiceAreReachedByWhatClientsAsk(t *testing.T) {
	i := issuer.New(t, "")
	schemes := bearers(t, i, nil)
	f := &fake{}
	c := newClient(t, f, func(cfg *server.Config) { cfg.Authenticator, cfg.OIDCGroups = schemes, []string{"vo.example.org"} })
	alice := "Bearer " + i.Token("somebody", nil)
	for _, path := range []string{"/system/config", "/system/config/"} {
		resp := c.do("GET", path, "", "Authorization", alice)
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("it may be kept: %q", got)
		}
		if got := resp.Header.Get("Oscarfed-Missing"); got != "" {
			t.Errorf("missing: %q", got)
		}
		want(t, resp, 200, jsonType,
			`{"config":{"name":"oscar","namespace":"","services_namespace":"","controller_service_account":"","gpu_available":false,`+
				`"interLink_available":false,"yunikorn_enable":false,"kueue_enable":false,"volume_enable":false,"oidc_groups":["vo.example.org"],"minio_quota_enabled":false},`+
				`"minio_provider":{"endpoint":"https://minio.example.org","verify":true,"access_key":"somebody","secret_key":"his","region":"us-east-1"},"allowed_image_repositories":[]}`)
	}
	resp := c.do("GET", "/system/config", "")
	if got := resp.Header.Get("Oscarfed-Missing"); resp.StatusCode != 200 || got != "minio_provider: for users alone" {
		t.Errorf("the administrator: %d, missing %q", resp.StatusCode, got)
	}
	f.err = &fault.Error{Code: fault.CodeUnavailable, Message: "too late"}
	if resp := c.do("GET", "/system/config", "", "Authorization", alice); resp.StatusCode != 503 {
		t.Errorf("an error: %d", resp.StatusCode)
	}
}

// A user who names a cluster gets his own keys there; the administrator would get
// MinIO's root keys, and gets none.
func TestOnlyUsersAreGivenKeys(t *testing.T) {
	i := issuer.New(t, "")
	schemes := bearers(t, i, nil)
	c := newClient(t, &fake{}, func(cfg *server.Config) { cfg.Authenticator = schemes })
	alice := "Bearer " + i.Token("somebody", nil)
	resp := c.do("GET", "/system/config?cluster_id=oscar-cluster-b", "", "Authorization", alice)
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("it may be kept: %q", got)
	}
	want(t, resp, 200, jsonType,
		`{"config":{"name":"oscar","namespace":"","services_namespace":"","controller_service_account":"","gpu_available":false,`+
			`"interLink_available":false,"yunikorn_enable":false,"kueue_enable":false,"volume_enable":false,"oidc_groups":[],"minio_quota_enabled":false},`+
			`"minio_provider":{"endpoint":"https://minio.b.example.org","verify":false,"access_key":"somebody","secret_key":"his","region":"eu-1"},"allowed_image_repositories":[]}`)
	for _, cluster := range []string{"oscar-cluster-b", "", "nowhere"} {
		if resp := c.do("GET", "/system/config?cluster_id="+cluster, ""); resp.StatusCode != 403 {
			t.Errorf("the administrator is answered %d about %q", resp.StatusCode, cluster)
		}
	}
	if resp := c.do("GET", "/system/config?cluster_id=nowhere", "", "Authorization", alice); resp.StatusCode != 404 {
		t.Errorf("an unknown cluster: %d", resp.StatusCode)
	}
	if resp := c.do("GET", "/system/config?cluster_id=oscar-cluster-b", "", "Authorization", ""); resp.StatusCode != 401 {
		t.Errorf("nobody: %d", resp.StatusCode)
	}
}
