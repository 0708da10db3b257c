package contract

import "testing"

// putBuckets checks which buckets a PUT makes, takes and leaves.
func (s *suite) putBuckets(t *testing.T) {
	own, mesh, none := s.name("own1"), s.name("wkmesh"), s.name("wknone")
	s.post(t, plain(own, own)).must(t, 201, "")
	for _, n := range []string{mesh, none} {
		def := worker(n, n+"a")
		if n == none {
			def = def.with("federation", federation("none"))
		}
		s.post(t, def).must(t, 201, "")
		t.Run("new name "+n, func(t *testing.T) {
			s.put(t, def.with("input", files(n+"b/in")).with("output", files(n+"b/out"))).want(t, 500, noSuchUser+noOwner)
			s.get(t, n).has(t, `[{"storage_provider":"minio.default","path":"`+n+`b/in"}]`, "input")
			s.kept(t, n+"b", "", "in/", "out/")
		})
		t.Run("missing bucket of a known name "+n, func(t *testing.T) {
			s.do(t, "DELETE", "/system/buckets/"+n+"b", nil).want(t, 204, "")
			s.gone(t, n+"b")
			s.put(t, def.with("input", files(n+"b/in")).with("output", files(n+"b/out"))).want(t, 204, "")
			s.kept(t, n+"b", "", "in/", "out/")
		})
	}
	t.Run("bucket that cannot be made", func(t *testing.T) {
		def := worker(mesh, mesh+"b")
		s.put(t, bare(mesh).with("output", files("_none/x")).with("federation", federation("mesh"))).want(t, 500, noSuchUser+noOwner)
		s.get(t, mesh).has(t, `[{"storage_provider":"minio.default","path":"_none/x"}]`, "output")
		s.kept(t, mesh+"b", "", "in/", "out/")
		s.put(t, def).want(t, 500, noSuchUser+noOwner)
		s.kept(t, mesh+"b", "", "in/", "out/")
	})
	t.Run("bucket of another service", func(t *testing.T) {
		def := worker(mesh, own)
		s.put(t, def).want(t, 500, noSuchUser+noOwner)
		s.get(t, mesh).has(t, `[{"storage_provider":"minio.default","path":"`+own+`/in"}]`, "input")
		s.kept(t, own, own, "in/", "out/")
		s.put(t, def).want(t, 204, "")
		s.kept(t, own, own, "in/", "out/")
	})
	t.Run("delete takes it and leaves the dropped one", func(t *testing.T) {
		s.delete(t, mesh).want(t, 204, "")
		s.gone(t, own)
		s.get(t, own).want(t, 200, "{..}")
		s.kept(t, mesh+"b", "", "in/", "out/")
		s.delete(t, own).want(t, 204, "")
		s.delete(t, none).want(t, 204, "")
	})
}
