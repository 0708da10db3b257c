package contract

import (
	"strings"
	"testing"
)

// token checks that the token which comes with the worker annotation names one life of a service.
func (s *suite) token(t *testing.T) {
	a, b := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	quoted := func(token string) string { return `"` + token + `"` }
	for _, topology := range []string{"mesh", "none", "star", ""} {
		t.Run("topology "+topology, func(t *testing.T) {
			n := s.name("tok" + topology)
			def := worker(n, n).with("token", a).with("federation", federation(topology))
			if topology == "" {
				def = def.without("federation")
			}
			s.post(t, def).must(t, 201, "")
			s.get(t, n).has(t, quoted(a), "token")
			if topology == "mesh" {
				s.gone(t, n)
			} else {
				s.kept(t, n, n, "in/", "out/")
			}
			s.do(t, "POST", "/job/"+n, "e", bearer(a)).want(t, 201, "")
			s.do(t, "POST", "/job/"+n, "e", bearer("")).want(t, 401, "")
			s.put(t, def.with("token", b).without("annotations")).want(t, 204, "")
			got := s.get(t, n)
			got.has(t, quoted(a), "token")
			got.has(t, "{}", "annotations")
			if topology == "mesh" {
				s.kept(t, n, "", "in/", "out/") // this PUT made it, without tags
			}
			s.put(t, def.with("token", b)).want(t, 204, "")
			s.get(t, n).has(t, quoted(a), "token")
			s.delete(t, n).want(t, 204, "")
			s.gone(t, n)
		})
	}
	t.Run("next life", func(t *testing.T) {
		n := s.name("toknext")
		s.post(t, bare(n).with("token", a)).must(t, 201, "")
		if token := s.get(t, n).field(t, "token"); !hex64.MatchString(token) || token == quoted(a) {
			t.Errorf("without the annotation the token is %s, want a random one", token)
		}
		s.delete(t, n).want(t, 204, "")
	})
	t.Run("no token", func(t *testing.T) {
		n := s.name("toknone")
		def := worker(n, n)
		s.post(t, def).must(t, 201, "")
		s.get(t, n).has(t, `""`, "token")
		s.put(t, def.with("token", b)).want(t, 204, "")
		s.get(t, n).has(t, quoted(b), "token")
		s.put(t, def.with("token", a)).want(t, 204, "")
		s.get(t, n).has(t, quoted(b), "token")
		s.delete(t, n).want(t, 204, "")
	})
	t.Run("annotation True [code]", func(t *testing.T) {
		// Good for the mesh shape, which ignores case, and not for the token.
		n := s.name("tokcase")
		s.post(t, worker(n, n).with("token", a).with("annotations", map[string]string{workerAnnotation: "True"})).must(t, 201, "")
		if token := s.get(t, n).field(t, "token"); token == quoted(a) {
			t.Errorf("token is %s, want a random one", token)
		}
		s.gone(t, n)
		s.delete(t, n).want(t, 204, "")
	})
}
