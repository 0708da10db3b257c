package contract

import "testing"

// system checks what needs no service.
func (s *suite) system(t *testing.T) {
	t.Run("health", func(t *testing.T) {
		s.do(t, "GET", "/health", nil, anonymous).want(t, 200, "Ok")
	})
	t.Run("info", func(t *testing.T) {
		s.do(t, "GET", "/system/info", nil).want(t, 200, `{"version":"v4.1..","git_commit":"..","architecture":"..","kubernetes_version":"v1..}`)
	})
	t.Run("config with root keys", func(t *testing.T) {
		got := s.do(t, "GET", "/system/config", nil)
		got.want(t, 200, `{"config":{"name":"..},"minio_provider":{"endpoint":"http..","verify":..,"access_key":"..","secret_key":"..","region":".."},"allowed_image_repositories":[..]}`)
		if s.minio.AccessKey == "" || s.minio.SecretKey == "" {
			t.Error("the administrator gets no MinIO keys")
		}
	})
	t.Run("status", func(t *testing.T) {
		got := s.do(t, "GET", "/system/status", nil)
		if got.status == 500 { // a cluster without metrics.k8s.io
			got.want(t, 500, `{"error":"Error getting metrics info: the server could not find the requested resource (get nodes.metrics.k8s.io)"}`)
			return
		}
		got.want(t, 200, `{"cluster":{"nodes_count":..,`+
			`"metrics":{"cpu":{"total_free_cores":..,"max_free_on_node_cores":..,"total_schedulable_cores":..,"total_schedulable_on_node_cores":..}`+
			`,"memory":{"total_free_bytes":..,"max_free_on_node_bytes":..,"total_schedulable_bytes":..,"max_schedulable_on_node_bytes":..},"gpu":{"total_gpu":..}}`+
			`,"nodes":[{"name":"..","cpu":{"capacity_cores":..},"memory":{"capacity_bytes":..},`+
			`"gpu":..,"is_interlink":..,"status":"Ready","conditions":[..]}..]}`+
			`,"oscar":{"deployment_name":"..","ready":..,"deployment":{"available_replicas":..},"jobs_count":..,"pods":{"total":..,"states":{..}},"oidc":{..}}`+
			`,"minio":{"buckets_count":..,"total_objects":..}}`)
	})
	t.Run("no or wrong credentials", func(t *testing.T) {
		for _, path := range []string{"/system/info", "/system/config", "/system/services", "/system/services/x", "/system/buckets", "/system/logs/x", "/system/status", "/system/federation/x"} {
			none := s.do(t, "GET", path, nil, anonymous)
			none.want(t, 401, "")
			if got := none.header.Get("WWW-Authenticate"); got != `Basic realm="Authorization Required"` {
				t.Errorf("GET %s: WWW-Authenticate is %q", path, got)
			}
		}
		s.do(t, "GET", "/system/info", nil, header("Authorization", "Basic b3NjYXI6d3Jvbmc=")).want(t, 401, "")
		s.do(t, "GET", "/system/info", nil, bearer("a.b.c")).want(t, 401, "")
		s.do(t, "POST", "/system/services", bare(s.name("no")), anonymous).want(t, 401, "")
		s.do(t, "DELETE", "/system/services/"+s.name("no"), nil, anonymous).want(t, 401, "")
	})
	t.Run("unknown path", func(t *testing.T) {
		s.do(t, "GET", "/system/nothing", nil).want(t, 404, "404 page not found")
		s.do(t, "GET", "/system/nothing", nil, anonymous).want(t, 404, "404 page not found")
		s.do(t, "PATCH", "/system/services", nil).want(t, 404, "404 page not found")
	})
	t.Run("no serverless backend", func(t *testing.T) {
		s.do(t, "POST", "/run/"+s.name("no"), "x").want(t, 404, "404 page not found")
	})
	t.Run("trailing slash", func(t *testing.T) {
		got := s.do(t, "GET", "/system/config/", nil)
		if got.status != 301 || got.header.Get("Location") != "/system/config" {
			t.Errorf("GET answered %d to %q, want 301 to /system/config", got.status, got.header.Get("Location"))
		}
		got = s.do(t, "POST", "/system/services/", bare(s.name("no")))
		if got.status != 307 || got.header.Get("Location") != "/system/services" {
			t.Errorf("POST answered %d to %q, want 307 to /system/services", got.status, got.header.Get("Location"))
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		no := s.name("no")
		s.get(t, no).want(t, 404, "")
		s.put(t, bare(no)).want(t, 404, "")
		s.delete(t, no).want(t, 404, "")
		s.do(t, "GET", "/system/federation/"+no, nil).want(t, 404, "")
		s.do(t, "GET", "/system/logs/"+no, nil).want(t, 404, "")
		s.do(t, "GET", "/system/services/"+no+"/deployment", nil).want(t, 403, "You do not have permission to access this service")
		s.do(t, "DELETE", "/system/buckets/"+no, nil).want(t, 404, "The bucket '"+no+"' does not exist")
		s.gone(t, no)
	})
}
