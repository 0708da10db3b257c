package contract

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Target is the OSCAR under test.
type Target struct {
	// URL is the endpoint without a slash at the end.
	URL string
	// User and Password are the administrator's Basic credentials.
	User, Password string
	// Token is an access token of a user that it lets in, of an issuer that it is configured with;
	// empty leaves out what a user may do.
	Token string
	// Prefix begins the name of everything that the suite makes: 3 to 12 lower-case letters and digits. Everything with
	// this prefix is deleted at the end.
	Prefix string
	// Client sends the requests; default one with a timeout of two minutes.
	Client *http.Client
}

// suite is one run.
type suite struct {
	Target
	services string // OSCAR's namespace for the administrator's services
	manager  string // OSCAR's own namespace
	managed  bool   // it has managed volumes
	minio    provider
}

// provider is minio_provider of /system/config.
type provider struct {
	Endpoint  string `json:"endpoint"`
	Verify    bool   `json:"verify"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Region    string `json:"region"`
}

// Run checks every fact, in order: creates and deletes must not overlap.
func Run(t *testing.T, target Target) {
	if target.Client == nil {
		target.Client = &http.Client{Timeout: 2 * time.Minute}
	}
	// A redirect is an answer to check, not to follow.
	client := *target.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	target.Client = &client
	s := &suite{Target: target}
	s.configure(t)
	s.sweep(t)
	t.Cleanup(func() { s.sweep(t) })

	t.Run("system", s.system)
	t.Run("refusals", s.refusals)
	t.Run("life", s.life)
	t.Run("jobs", s.jobs)
	t.Run("buckets and usage", s.usage)
	if s.Token != "" {
		t.Run("users", s.users)
		t.Run("buckets and usage of a user", s.usersUsage)
	}
	t.Run("events", s.events)
	t.Run("detach", s.detach)
	t.Run("foreign bucket", s.foreign)
	if s.managed {
		t.Run("volumes", s.volumes)
	}
	t.Run("token", s.token)
	t.Run("put and buckets", s.putBuckets)
	t.Run("members", s.members)
	t.Run("origin", s.origin)
	t.Run("secrets", s.secrets)
	t.Run("read back", s.readBack)
}

// configure learns what differs between installations.
func (s *suite) configure(t *testing.T) {
	t.Helper()
	var config struct {
		Config struct {
			Namespace string `json:"namespace"`
			Services  string `json:"services_namespace"`
			Volumes   bool   `json:"volume_enable"`
		} `json:"config"`
		MinIO provider `json:"minio_provider"`
	}
	got := s.do(t, "GET", "/system/config", nil)
	if got.status != http.StatusOK || json.Unmarshal([]byte(got.body), &config) != nil {
		t.Fatalf("no OSCAR at %s for user %s: GET /system/config answered %d %q", s.URL, s.User, got.status, got.body)
	}
	s.services, s.manager, s.minio = config.Config.Services, config.Config.Namespace, config.MinIO
	s.managed = config.Config.Volumes
}

// sweep deletes every service, bucket and volume with the prefix.
func (s *suite) sweep(t *testing.T) {
	t.Helper()
	for _, name := range s.names(t, "/system/services", "name") {
		s.do(t, "DELETE", "/system/services/"+name, nil)
	}
	for _, name := range s.names(t, "/system/buckets", "bucket_name") {
		s.do(t, "DELETE", "/system/buckets/"+name, nil)
	}
	left := append(s.names(t, "/system/services", "name"), s.names(t, "/system/buckets", "bucket_name")...)
	if s.managed {
		for _, name := range s.names(t, "/system/volumes", "name") {
			s.do(t, "DELETE", "/system/volumes/"+name, nil)
		}
		left = append(left, s.names(t, "/system/volumes", "name")...)
	}
	if len(left) > 0 {
		t.Errorf("cannot be deleted: %v", left)
	}
}

// names lists what the suite made.
func (s *suite) names(t *testing.T, path, field string) []string {
	t.Helper()
	var list []map[string]any
	got := s.do(t, "GET", path, nil)
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatalf("GET %s answered %d %q: %v", path, got.status, got.body, err)
	}
	var out []string
	for _, entry := range list {
		if name, _ := entry[field].(string); strings.HasPrefix(name, s.Prefix) {
			out = append(out, name)
		}
	}
	return out
}

// name makes a name of this run.
func (s *suite) name(suffix string) string { return s.Prefix + suffix }
