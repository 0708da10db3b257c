package contract

import (
	"regexp"
	"strings"
	"testing"
)

var hex64 = regexp.MustCompile(`^"[0-9a-f]{64}"$`)

// life checks one service from create to delete, and the delete after a PUT that forgot the owner.
func (s *suite) life(t *testing.T) {
	n := s.name("life")
	def := plain(n, n).with("annotations", map[string]string{"example.org/mark": "m"}).with("labels", map[string]string{"own": "l"})
	t.Run("create", func(t *testing.T) {
		s.post(t, def.with("token", "mine").with("no_such_field", 1)).must(t, 201, "")
		got := s.get(t, n)
		got.want(t, 200, "{..}")
		if token := got.field(t, "token"); !hex64.MatchString(token) {
			t.Errorf("token is %s, want 64 hex digits of OSCAR's own", token)
		}
		got.has(t, `{"example.org/mark":"m"}`, "annotations")
		got.has(t, `{"applicationId":"`+n+`","oscar.grycap/user-service":"true","oscar_service":"`+n+`","own":"l","owner_name":"oscar","queue":"root.oscar-queue.`+n+`"}`, "labels")
		got.has(t, "", "no_such_field")
		got.has(t, `"`+s.services+`"`, "namespace")
	})
	t.Run("bucket", func(t *testing.T) {
		s.kept(t, n, n, "in/", "out/")
		got := s.bucket(t, n)
		got.has(t, `""`, "metadata", "owner")
		got.has(t, `"oscar"`, "metadata", "owner_name")
	})
	t.Run("list holds what get answers", func(t *testing.T) {
		all := s.do(t, "GET", "/system/services", nil)
		if one := s.get(t, n); all.status != 200 || !strings.Contains(all.body, one.body) {
			t.Errorf("the list answered %d without\n%s", all.status, one.body)
		}
	})
	t.Run("duplicate", func(t *testing.T) {
		s.post(t, def).want(t, 400, "A service with the provided name already exists")
	})
	t.Run("duplicate with secrets", func(t *testing.T) {
		secrets := map[string]any{"secrets": map[string]string{"k": "v"}}
		// The first one makes a Secret before it is refused.
		s.post(t, def.with("environment", secrets)).want(t, 400, "A service with the provided name already exists")
		s.post(t, def.with("environment", secrets)).want(t, 409, "A secret with the given name already exists")
	})
	t.Run("federation", func(t *testing.T) {
		s.do(t, "GET", "/system/federation/"+n, nil).want(t, 200, `{"topology":"none","members":null}`)
	})
	t.Run("deployment", func(t *testing.T) {
		s.do(t, "GET", "/system/services/"+n+"/deployment", nil).want(t, 200, `{"service_name":"`+n+`","namespace":"`+s.services+`","state":"unavailable",..}`)
	})
	t.Run("update", func(t *testing.T) {
		before := s.get(t, n)
		s.put(t, def.with("cpu", "0.3").with("token", "mine")).want(t, 204, "")
		after := s.get(t, n)
		after.has(t, `"0.3"`, "cpu")
		after.has(t, before.field(t, "token"), "token")
		s.put(t, `{"name":"`+n+`"`).want(t, 400, invalid+"unexpected EOF")
		s.put(t, def.with("cpu", "lots")).want(t, 500, "Error updating the service: quantities must match the regular expression ..")
		s.get(t, n).want(t, 200, after.body)
	})
	t.Run("delete", func(t *testing.T) {
		s.delete(t, n).want(t, 204, "")
		s.get(t, n).want(t, 404, "")
		s.gone(t, n)
		s.delete(t, n).want(t, 404, "")
	})
	t.Run("delete after an update without owner", func(t *testing.T) {
		n := s.name("noown")
		s.post(t, plain(n, n)).must(t, 201, "")
		s.put(t, plain(n, n).without("owner")).want(t, 204, "")
		s.get(t, n).has(t, `""`, "owner")
		s.delete(t, n).want(t, 500, "Error deleting service buckets: %!(EXTRA *errors.errorString=error while removing MinIO bucket error removing resource)")
		s.get(t, n).want(t, 404, "")
		s.kept(t, n, n, "in/", "out/")
		s.post(t, plain(n, n)).want(t, 500, `the bucket "`+n+`" already exists`)
		s.do(t, "DELETE", "/system/buckets/"+n, nil).want(t, 204, "")
	})
	t.Run("namespace in the body", func(t *testing.T) {
		n := s.name("ns")
		s.post(t, bare(n).with("namespace", s.manager)).must(t, 201, "")
		s.get(t, n).has(t, `"`+s.manager+`"`, "namespace")
		s.put(t, bare(n)).want(t, 204, "")
		s.get(t, n).has(t, `"`+s.manager+`"`, "namespace")
		s.delete(t, n).want(t, 204, "")
	})
}
