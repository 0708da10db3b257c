package contract

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// away is an endpoint where no process listens.
const away = "http://127.0.0.1:1"

// listed is a federation with one member.
func listed(topology string) map[string]any {
	member := map[string]any{"type": "oscar", "cluster_id": "elsewhere", "service_name": "r9"}
	return map[string]any{"topology": topology, "members": []any{member}}
}

// members checks that OSCAR sends nothing to anybody as long as members is empty, and what it does when it is not.
func (s *suite) members(t *testing.T) {
	n := s.name("mem")
	token := strings.Repeat("c3", 32)
	t.Run("empty members", func(t *testing.T) {
		var calls atomic.Int64
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
		defer other.Close()
		clusters := map[string]any{"elsewhere": map[string]any{"endpoint": other.URL, "auth_user": "u", "auth_password": "p", "ssl_verify": true}}
		for _, topology := range []string{"mesh", "star"} {
			def := worker(n, n).with("token", token).with("federation", federation(topology)).with("clusters", clusters)
			s.post(t, def).must(t, 201, "")
			got := s.get(t, n)
			got.has(t, `{"group_id":"`+n+`","topology":"`+topology+`"}`, "federation")
			got.has(t, `{"elsewhere":{"endpoint":"`+other.URL+`","auth_user":"u","auth_password":"p","ssl_verify":true}}`, "clusters")
			s.do(t, "GET", "/system/federation/"+n, nil).want(t, 200, `{"topology":"`+topology+`","members":null}`)
			s.put(t, def).want(t, 204, "")
			s.do(t, "POST", "/job/"+n, "e", bearer(token)).want(t, 201, "")
			s.delete(t, n).want(t, 204, "")
		}
		if calls.Load() != 0 {
			t.Errorf("OSCAR sent %d requests to the other cluster", calls.Load())
		}
	})
	clusters := map[string]any{"elsewhere": map[string]any{"endpoint": away}}
	secrets := map[string]any{"secrets": map[string]string{"refresh_token": "r"}}
	t.Run("members", func(t *testing.T) {
		def := worker(n, n).with("token", token).with("clusters", clusters)
		s.post(t, def).must(t, 201, "")
		s.put(t, def.with("federation", listed("mesh"))).want(t, 400, "refresh_token secret is required for federated services")
		s.put(t, def.with("federation", listed("mesh")).with("environment", secrets)).want(t, 204, "")
		s.do(t, "GET", "/system/federation/"+n, nil).want(t, 200, `{"topology":"mesh","members":[{"type":"oscar","cluster_id":"elsewhere","service_name":"r9","url":"","ssl_verify":false,"priority":0,"headers":..}]}`)
		s.put(t, def.with("federation", listed("star")).without("annotations")).want(t, 200, `Updated with federation warnings: [request failed: Put "`+away+`/system/services": dial tcp 127.0.0.1:1: connect: connection refused]`)
		s.put(t, def).want(t, 204, "")
		s.delete(t, n).want(t, 204, "")
	})
	t.Run("a member that is down refuses the create [code]", func(t *testing.T) {
		s.post(t, plain(n, n).with("federation", listed("star")).with("clusters", clusters).with("environment", secrets)).
			want(t, 401, `federation auth failed: [auth check failed for cluster "`+away+`": Get "`+away+`/system/services/r9": dial tcp 127.0.0.1:1: connect: connection refused]`)
		s.get(t, n).want(t, 404, "")
	})
	t.Run("endpoint of the origin", func(t *testing.T) {
		elsewhere := map[string]any{"minio": map[string]any{"default": map[string]any{"endpoint": "http://minio.invalid", "verify": true, "access_key": "a", "secret_key": "b", "region": "r"}}}
		def := worker(n, n).with("token", token).with("clusters", clusters).with("storage_providers", elsewhere).
			with("annotations", map[string]string{workerAnnotation: "true", "oscar.grycap/origin-cluster": "elsewhere", "oscar.grycap/origin-service": "o"})
		s.post(t, def).must(t, 201, "")
		s.get(t, n).has(t, `"http://minio.invalid"`, "storage_providers", "minio", "default", "endpoint")
		s.do(t, "POST", "/job/"+n, "e", bearer(token)).want(t, 500, "error fetching origin MinIO credentials: ..")
		// Without the annotation the endpoint is the cluster's own, and nothing is fetched.
		s.put(t, def.with("annotations", map[string]string{workerAnnotation: "true"})).want(t, 204, "")
		s.get(t, n).has(t, `"`+s.minio.Endpoint+`"`, "storage_providers", "minio", "default", "endpoint")
		s.do(t, "POST", "/job/"+n, "e", bearer(token)).want(t, 201, "")
		s.delete(t, n).want(t, 204, "")
	})
}

// secrets checks what PUT does to a Secret. Its values are not shown; whether it holds a refresh token is seen by a
// PUT with members.
func (s *suite) secrets(t *testing.T) {
	n := s.name("sec")
	environment := func(secrets map[string]string) map[string]any {
		return map[string]any{"variables": map[string]string{"v": "1"}, "secrets": secrets}
	}
	full := environment(map[string]string{"k": "value", "refresh_token": "r"})
	federated := bare(n).with("federation", listed("star")).
		with("clusters", map[string]any{"elsewhere": map[string]any{"endpoint": away}})
	s.post(t, bare(n).with("environment", full)).must(t, 201, "")
	t.Run("blank in the answer", func(t *testing.T) {
		s.get(t, n).has(t, `{"variables":{"v":"1"},"secrets":{"k":"","refresh_token":""}}`, "environment")
	})
	t.Run("untouched by a PUT without secrets", func(t *testing.T) {
		s.put(t, bare(n)).want(t, 204, "")
		s.put(t, federated).want(t, 200, "Updated with federation warnings: ..")
	})
	t.Run("replaced by a PUT with secrets", func(t *testing.T) {
		s.put(t, bare(n).with("environment", environment(map[string]string{"k": ""}))).want(t, 204, "")
		s.put(t, federated).want(t, 500, `error reading refresh-token secret: refresh-token secret missing key "refresh_token"`)
	})
	t.Run("goes with the service", func(t *testing.T) {
		s.delete(t, n).want(t, 204, "")
		s.post(t, bare(n).with("environment", full)).want(t, 201, "")
		s.delete(t, n).want(t, 204, "")
	})
}
