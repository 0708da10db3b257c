package contract

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// minioEvent is what MinIO sends of an upload of a user's.
func minioEvent(user string) string {
	return fmt.Sprintf(`{"EventName":"s3:ObjectCreated:Put","Key":"b/in/x","Records":[{"eventName":"s3:ObjectCreated:Put",`+
		`"requestParameters":{"principalId":%q,"sourceIPAddress":"10.0.0.1"},"s3":{"bucket":{"name":"b"},"object":{"key":"in%%2Fx"}}}]}`, user)
}

// asked is what an origin was asked for last.
type asked struct{ method, path, authorization string }

// origin checks what a worker does whose minio.default is another cluster's: it asks that cluster for the keys. The
// cluster is a listener of the suite's, so the OSCAR under test must be on the same machine.
func (s *suite) origin(t *testing.T) {
	if u, err := url.Parse(s.URL); err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" {
		t.Logf("%s is another machine: it cannot ask this one", s.URL)
		return
	}
	const given = `{"config":{},"minio_provider":{"endpoint":"http://minio.invalid","verify":true,"access_key":"u","secret_key":"k","region":"r"},"allowed_image_repositories":[]}`
	var last atomic.Pointer[asked]
	var status atomic.Int64
	var body atomic.Pointer[string]
	answers := func(code int64, text string) { last.Store(nil); status.Store(code); body.Store(&text) }
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(&asked{r.Method, r.URL.Path, r.Header.Get("Authorization")})
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(*body.Load()))
	}))
	defer other.Close()

	n, token := s.name("orig"), strings.Repeat("d4", 32)
	cluster := func(endpoint string) map[string]any {
		return map[string]any{"elsewhere": map[string]any{"endpoint": endpoint}}
	}
	storage := func(endpoint string) map[string]any {
		return map[string]any{"minio": map[string]any{"default": map[string]any{"endpoint": endpoint, "verify": true, "region": "r"}}}
	}
	def := bare(n).with("visibility", "public").with("federation", federation("mesh")).with("token", token).with("clusters", cluster(other.URL)).
		with("storage_providers", storage("http://minio.invalid")).
		with("annotations", map[string]string{workerAnnotation: "true", "oscar.grycap/origin-cluster": "elsewhere", "oscar.grycap/origin-service": "o"})
	s.post(t, def).must(t, 201, "")
	defer s.delete(t, n)
	start := func(t *testing.T, event string) answer {
		t.Helper()
		return s.do(t, "POST", "/job/"+n, event, bearer(token))
	}

	t.Run("the keys are asked for with what the job came with", func(t *testing.T) {
		answers(200, given)
		start(t, minioEvent("62bb11b4@egi.eu")).want(t, 201, "")
		if got := last.Load(); got == nil || *got != (asked{"GET", "/system/config", "Bearer " + token}) {
			t.Errorf("the origin was asked %+v", got)
		}
	})
	t.Run("the service's token and an event of nobody's", func(t *testing.T) {
		for name, event := range map[string]string{
			"text": "e", "empty": "", "no records": `{"Records":[]}`, "nobody": minioEvent(" nil "), "no user": `{"Records":[{"requestParameters":{"sourceIPAddress":"10.0.0.1"}}]}`,
			"no address": `{"Records":[{"requestParameters":{"principalId":"u"}}]}`,
		} {
			answers(200, given)
			if !start(t, event).want(t, 500, "origin user id is missing for delegated job") {
				t.Logf("for %s", name)
			}
		}
	})
	if s.Token != "" {
		t.Run("a user's token and any event", func(t *testing.T) {
			answers(200, given)
			s.do(t, "POST", "/job/"+n, "e", bearer(s.Token)).want(t, 201, "")
			if got := last.Load(); got == nil || *got != (asked{"GET", "/system/config", "Bearer " + s.Token}) {
				t.Errorf("the origin was asked %+v", got)
			}
			// One that looks like MinIO's and is not has no user, whatever its sender.
			s.do(t, "POST", "/job/"+n, `{"Records":[]}`, bearer(s.Token)).want(t, 500, "origin user id is missing for delegated job")
		})
	}
	t.Run("answers of the origin", func(t *testing.T) {
		for _, c := range []struct {
			status int64
			body   string
			want   string
		}{
			{401, "", "error fetching origin MinIO credentials: origin /system/config returned status 401"},
			{204, "", "error fetching origin MinIO credentials: origin /system/config returned status 204"},
			{200, `{"config":{}}`, "error fetching origin MinIO credentials: origin /system/config did not include minio_provider"},
			{200, `<html>`, "error fetching origin MinIO credentials: invalid character '<' looking for beginning of value"},
			{200, ``, "error fetching origin MinIO credentials: EOF"},
			{200, `{"minio_provider":{"access_key":"u"}}`, `origin MinIO credentials are empty for cluster "elsewhere"`},
		} {
			answers(c.status, c.body)
			start(t, minioEvent("u")).want(t, 500, c.want)
		}
	})
	t.Run("an origin that is not there", func(t *testing.T) {
		s.put(t, def.with("clusters", cluster(away))).want(t, 204, "")
		start(t, minioEvent("u")).want(t, 500, `error fetching origin MinIO credentials: Get "`+away+`/system/config": dial tcp 127.0.0.1:1: connect: connection refused`)
		s.put(t, def.with("clusters", cluster(" "))).want(t, 204, "")
		start(t, minioEvent("u")).want(t, 500, `origin cluster "elsewhere" endpoint is empty`)
		s.put(t, def.with("clusters", map[string]any{"another": map[string]any{"endpoint": other.URL}})).want(t, 204, "")
		start(t, minioEvent("u")).want(t, 500, `origin cluster "elsewhere" not defined in service clusters`)
	})
	t.Run("the cluster's own MinIO", func(t *testing.T) {
		s.put(t, def.with("storage_providers", storage(s.minio.Endpoint))).want(t, 204, "")
		answers(500, "")
		start(t, "e").want(t, 201, "")
		if got := last.Load(); got != nil {
			t.Errorf("the origin was asked %+v", got)
		}
	})
}
