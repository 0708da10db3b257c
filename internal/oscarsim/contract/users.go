package contract

import (
	"net/http"
	"strings"
	"testing"
)

// users checks what a user's access token opens. It needs a target with OIDC, and his token. All of it was read in
// the upstream's source.
func (s *suite) users(t *testing.T) {
	user := bearer(s.Token)
	as := func(t *testing.T, method, path string, body any) answer {
		t.Helper()
		return s.do(t, method, path, body, user)
	}
	mine, theirs, open := s.name("mine"), s.name("theirs"), s.name("open")
	s.post(t, bare(theirs)).must(t, 201, "")
	defer s.delete(t, theirs)
	s.post(t, bare(open).with("visibility", "public")).must(t, 201, "")
	defer s.delete(t, open)

	t.Run("his service is his [code]", func(t *testing.T) {
		as(t, "POST", "/system/services", bare(mine).without("owner")).must(t, 201, "")
		got := as(t, "GET", "/system/services/"+mine, nil)
		if owner, namespace := got.field(t, "owner"), got.field(t, "namespace"); owner == `"cluster_admin"` || !strings.HasPrefix(namespace, `"`+s.services+`-`) {
			t.Errorf("owner %s, namespace %s", owner, namespace)
		}
	})
	defer s.delete(t, mine)
	t.Run("what he may see [code]", func(t *testing.T) {
		as(t, "GET", "/system/services/"+open, nil).want(t, 200, "{..}")
		if got := as(t, "GET", "/system/services/"+theirs, nil); got.status == http.StatusOK {
			t.Errorf("he sees a private service of somebody else: %s", got.body)
		}
		got := as(t, "GET", "/system/services", nil).body
		if !strings.Contains(got, `"name":"`+mine+`"`) || !strings.Contains(got, `"name":"`+open+`"`) || strings.Contains(got, `"name":"`+theirs+`"`) {
			t.Errorf("the list is %.2000s", got)
		}
	})
	t.Run("what he may start [code]", func(t *testing.T) {
		as(t, "POST", "/job/"+open, "e").want(t, 201, "")
		as(t, "POST", "/job/"+theirs, "e").want(t, 404, "")
		as(t, "POST", "/job/"+s.name("no"), "e").want(t, 404, "")
		// A private service of his own is found unless he is of EGI: there OSCAR looks for the part before the @.
		want := 201
		if owner := as(t, "GET", "/system/services/"+mine, nil).field(t, "owner"); strings.Contains(owner, "@") {
			want = 404
		}
		as(t, "POST", "/job/"+mine, "e").want(t, want, "")
	})
	t.Run("what he may change [code]", func(t *testing.T) {
		as(t, "PUT", "/system/services", bare(mine).without("owner").with("cpu", "0.3")).want(t, 204, "")
		as(t, "DELETE", "/system/services/"+open, nil).want(t, 404, "")
		as(t, "DELETE", "/system/services/"+mine, nil).want(t, 204, "")
	})
	t.Run("no token of an issuer [code]", func(t *testing.T) {
		s.do(t, "GET", "/system/services", nil, bearer("abc")).want(t, 400, "..")
		s.do(t, "POST", "/job/"+open, "e", bearer("abc")).want(t, 502, "token is malformed: token contains an invalid number of segments..")
	})
}
