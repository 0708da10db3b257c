package contract

import (
	"strings"
	"testing"
)

// usage checks buckets, links, usage and quotas for the administrator. All of it was read in the upstream's source.
func (s *suite) usage(t *testing.T) {
	b := s.name("own")
	path := "/system/buckets/" + b
	s.do(t, "POST", "/system/buckets", map[string]string{"bucket_name": b, "visibility": "private"}).must(t, 201, "")
	t.Run("links [code]", func(t *testing.T) {
		link := func(bucket, operation string, expires int) answer {
			return s.do(t, "POST", "/system/buckets/"+bucket+"/presign", map[string]any{"object_key": "/a/b", "operation": operation, "expires_in": expires})
		}
		got := link(b, "upload", 60)
		got.want(t, 200, "{..}")
		got.has(t, `"a/b"`, "object_key")
		got.has(t, `"PUT"`, "method")
		link(b, "Download", 0).has(t, `"GET"`, "method")
		link(b, "list", 0).want(t, 400, "Unsupported operation 'list'. Allowed values are 'upload' or 'download'")
		link(b, "upload", -1).want(t, 400, "Invalid expiration requested: -1. Allowed range is 1-604800 seconds")
		link(s.name("no"), "upload", 60).want(t, 404, "Bucket '"+s.name("no")+"' not found")
		s.do(t, "POST", path+"/presign", "{").want(t, 400, "Invalid presign request: ..")
	})
	s.do(t, "DELETE", path, nil).want(t, 204, "")
	t.Run("what was used [code]", func(t *testing.T) {
		s.do(t, "GET", "/system/metrics", nil).want(t, 200, "{..}")
		s.do(t, "GET", "/system/metrics/breakdown", nil).want(t, 400, `{"error":"group_by is required"}`)
		s.do(t, "GET", "/system/metrics/breakdown?group_by=service&format=xml", nil).want(t, 400, `{"error":"invalid format"}`)
		s.do(t, "GET", "/system/metrics/breakdown?group_by=service", nil).has(t, `"service"`, "group_by")
		s.do(t, "GET", "/system/metrics/"+s.name("no")+"?metric=no", nil).want(t, 400, `{"error":"invalid metric key"}`)
		s.do(t, "GET", "/system/metrics/"+s.name("no"), nil).has(t, `"`+s.name("no")+`"`, "service_name")
	})
	t.Run("what is not exposed is not restarted [code]", func(t *testing.T) {
		n := s.name("plain")
		s.do(t, "POST", "/system/services/"+n+"/restart", nil).want(t, 404, "")
		s.post(t, bare(n)).must(t, 201, "")
		s.do(t, "POST", "/system/services/"+n+"/restart", nil).want(t, 400, `service "`+n+`" is not exposed`)
		s.delete(t, n).want(t, 204, "")
	})
	t.Run("an exposed service is stopped and started [code]", func(t *testing.T) {
		n := s.name("web")
		path := "/system/services/" + n
		web := bare(n)
		web["expose"] = map[string]any{"api_port": []int{8080}, "min_scale": 1, "max_scale": 1, "cpu_threshold": 80}
		s.post(t, web).must(t, 201, "")
		s.do(t, "POST", path+"/stop", nil).has(t, `"stopped"`, "state")
		s.do(t, "GET", path+"/deployment", nil).has(t, `"stopped"`, "state")
		s.put(t, web).want(t, 500, `Error updating the service: horizontalpodautoscalers.autoscaling "`+n+`-hpa" not found`)
		s.do(t, "POST", path+"/start", nil).want(t, 200, "{..}")
		if got := s.do(t, "GET", path+"/deployment", nil).body; strings.Contains(got, `"stopped"`) {
			t.Errorf("after the start: %s", got)
		}
		s.put(t, web).want(t, 204, "")
		_, script := s.get(t, n).object(t)["script"]
		if _, knative := s.do(t, "GET", "/system/info", nil).object(t)["serverless_backend"]; script != knative {
			t.Errorf("after a PUT the script is there: %v; with Knative: %v", script, knative)
		}
		s.delete(t, n).want(t, 204, "")
		s.do(t, "POST", path+"/stop", nil).want(t, 404, "")
		s.do(t, "POST", path+"/start", nil).want(t, 404, "")
	})
	t.Run("quotas [code]", func(t *testing.T) {
		got := s.do(t, "GET", "/system/quotas/user", nil)
		if got.status == 404 { // neither Kueue nor managed volumes
			return
		}
		got.want(t, 401, "missing user identificator: ..")
		s.do(t, "PUT", "/system/quotas/user/somebody", map[string]string{}).want(t, 400, "cpu, memory, ephemeral_storage, volumes or minio must be provided")
	})
}

// usersUsage checks the same for a user.
func (s *suite) usersUsage(t *testing.T) {
	user := bearer(s.Token)
	b := s.name("his")
	bucket := map[string]string{"bucket_name": b, "visibility": "private"}
	s.do(t, "POST", "/system/buckets", bucket, user).must(t, 201, "")
	t.Run("his bucket [code]", func(t *testing.T) {
		shown := func(visibility string) {
			t.Helper()
			if got := s.do(t, "GET", "/system/buckets", nil, user); !strings.Contains(got.body, `"bucket_name":"`+b+`","visibility":"`+visibility+`"`) {
				t.Errorf("it is not %s: %.1000s", visibility, got.body)
			}
		}
		shown("private")
		bucket["visibility"] = "public"
		s.do(t, "PUT", "/system/buckets", bucket, user).want(t, 204, "")
		shown("public")
		s.do(t, "POST", "/system/buckets/"+b+"/presign", map[string]any{"object_key": "a", "operation": "download"}, user).want(t, 200, "{..}")
	})
	s.do(t, "DELETE", "/system/buckets/"+b, nil, user).want(t, 204, "")
	t.Run("a bucket for some", func(t *testing.T) {
		b := s.name("some")
		some := map[string]any{"bucket_name": b, "visibility": "restricted", "allowed_users": []string{s.name("unknown")}}
		s.do(t, "POST", "/system/buckets", some, user).want(t, 500, "Error creating policies for bucket: error creating bucket group: ..")
		s.do(t, "DELETE", "/system/buckets/"+b, nil, user).want(t, 204, "")
		some["allowed_users"] = []string{}
		s.do(t, "POST", "/system/buckets", some, user).want(t, 201, "")
		if got := s.do(t, "GET", "/system/buckets", nil, user); !strings.Contains(got.body, `"bucket_name":"`+b+`","visibility":"restricted"`) {
			t.Errorf("it is shown as %.1000s", got.body)
		}
		// Nobody is in its group: it stays, and he sees it no more.
		s.do(t, "DELETE", "/system/buckets/"+b, nil, user).want(t, 500, "error removing policy for group")
		if got := s.do(t, "GET", "/system/buckets", nil, user); strings.Contains(got.body, b) {
			t.Errorf("he is shown %.1000s", got.body)
		}
		s.do(t, "DELETE", "/system/buckets/"+b, nil).want(t, 204, "")
	})
	t.Run("what is not his [code]", func(t *testing.T) {
		s.do(t, "GET", "/system/logs", nil, user).want(t, 403, "OIDC tokens are not allowed for system logs")
		s.do(t, "GET", "/system/metrics/"+s.name("no"), nil, user).want(t, 404, "")
		if got := s.do(t, "GET", "/system/quotas/user/somebody", nil, user); got.status != 404 {
			got.want(t, 403, "forbidden")
		}
	})
}
