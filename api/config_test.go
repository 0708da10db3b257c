package api_test

import "testing"

// Clients of OSCAR ask for the configuration first, some with a slash at the end;
// they want an array of groups and a provider, and get nobody's credentials.
func TestConfigIsInOscarsFormWithoutCredentials(t *testing.T) {
	c := newClient(t, &fake{})
	for _, path := range []string{"/system/config", "/system/config/"} {
		want(t, c.do("GET", path, ""), 200, jsonType,
			`{"config":{"name":"oscar","namespace":"","services_namespace":"","controller_service_account":"","gpu_available":false,`+
				`"interLink_available":false,"yunikorn_enable":false,"kueue_enable":false,"volume_enable":false,"oidc_groups":[],"minio_quota_enabled":false},`+
				`"minio_provider":{"endpoint":"https://minio.example.org","verify":true,"access_key":"","secret_key":"","region":"us-east-1"},"allowed_image_repositories":[]}`)
	}
}
