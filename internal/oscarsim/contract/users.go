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
		if vo, labels := got.field(t, "vo"), got.field(t, "labels"); vo != `""` && !strings.Contains(labels, `"vo":"`) {
			t.Errorf("vo %s, labels %s", vo, labels)
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
	t.Run("buckets of single users [code]", func(t *testing.T) {
		const friend = "0123456789abcdef@example.org"
		private := mine + "-0123456789"
		def := plain(mine, mine).without("owner").with("allowed_users", []string{friend}).with("isolation_level", "USER")
		as(t, "POST", "/system/services", def.without("isolation_level")).must(t, 201, "")
		owner := strings.Trim(s.get(t, mine).field(t, "owner"), `"`)
		as(t, "DELETE", "/system/services/"+mine, nil).want(t, 204, "")
		if id, _, _ := strings.Cut(owner, "@"); len(id) < 10 { // it cuts the id to 10 characters
			as(t, "POST", "/system/services", def).want(t, 500, "")
			return
		}
		as(t, "POST", "/system/services", def).must(t, 201, "")
		s.get(t, mine).has(t, `["`+private+`"]`, "bucket_list")
		s.bucket(t, private).must(t, 200, "{..}")
		// The administrator has no id to name the buckets with.
		s.put(t, def.with("owner", owner).with("cpu", "0.3")).want(t, 500, "")
		s.get(t, mine).has(t, `"0.2"`, "cpu")
		// In lower case a PUT takes the level for another one, and everything else for the same.
		s.put(t, def.with("owner", owner).with("cpu", "0.3").with("isolation_level", "user").with("bucket_list", []string{private})).want(t, 204, "")
		s.get(t, mine).has(t, `"0.3"`, "cpu")
		s.bucket(t, private).must(t, 200, "{..}")
		as(t, "PUT", "/system/services", def.with("bucket_list", []string{})).want(t, 204, "")
		s.get(t, mine).has(t, `["`+private+`"]`, "bucket_list")
		// What a change leaves out is deleted.
		as(t, "PUT", "/system/services", def.with("isolation_level", "")).want(t, 204, "")
		s.gone(t, private)
		as(t, "DELETE", "/system/services/"+mine, nil).want(t, 204, "")
	})
	t.Run("no token of an issuer [code]", func(t *testing.T) {
		s.do(t, "GET", "/system/services", nil, bearer("abc")).want(t, 400, "..")
		s.do(t, "POST", "/job/"+open, "e", bearer("abc")).want(t, 502, "token is malformed: token contains an invalid number of segments..")
	})
}
