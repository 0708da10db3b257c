package contract

import "testing"

const (
	noSuchUser = "Error creating the service: error setting MinIO policy for user/group cluster_admin: The specified user does not exist. (Specified user does not exist)"
	noOwner    = "error setting new policies: error creating/adding MinIO policy for user/group : Invalid arguments specified. (Invalid arguments specified)"
)

// detach checks how a service is deleted without its data, and how a later one takes the bucket over.
func (s *suite) detach(t *testing.T) {
	n := s.name("det")
	def := plain(n, n).with("annotations", map[string]string{"example.org/mark": "m"})
	empty := def.with("input", []any{}).with("output", []any{})
	s.post(t, def).must(t, 201, "")
	t.Run("detach", func(t *testing.T) {
		token := s.get(t, n).field(t, "token")
		s.put(t, empty).want(t, 500, noOwner)
		got := s.get(t, n)
		got.has(t, "[]", "input")
		got.has(t, "[]", "output")
		got.has(t, `{"storage_provider":"","path":""}`, "mount")
		got.has(t, token, "token")
		got.has(t, `"cluster_admin"`, "owner")
		got.has(t, `{"example.org/mark":"m"}`, "annotations")
		s.put(t, empty).want(t, 204, "")
		s.kept(t, n, n, "in/", "out/")
	})
	t.Run("delete keeps the bucket", func(t *testing.T) {
		s.delete(t, n).want(t, 204, "")
		s.get(t, n).want(t, 404, "")
		s.kept(t, n, n, "in/", "out/")
	})
	t.Run("the bucket is in the way", func(t *testing.T) {
		s.post(t, def).want(t, 500, `the bucket "`+n+`" already exists`)
		s.get(t, n).want(t, 404, "")
	})
	t.Run("attach", func(t *testing.T) {
		s.post(t, empty).must(t, 201, "")
		s.put(t, def).want(t, 500, noSuchUser)
		s.get(t, n).has(t, `[{"storage_provider":"minio.default","path":"`+n+`/in"}]`, "input")
		s.put(t, def).want(t, 204, "")
		s.kept(t, n, n, "in/", "out/")
	})
	t.Run("mounted bucket survives", func(t *testing.T) {
		s.put(t, def.with("mount", map[string]string{"storage_provider": "minio.default", "path": n})).want(t, 204, "")
		s.delete(t, n).want(t, 204, "")
		s.kept(t, n, "", "in/", "out/")
		got := s.bucket(t, n)
		got.has(t, `{"owner":"cluster_admin","service":"false"}`, "metadata")
		s.do(t, "DELETE", "/system/buckets/"+n, nil).want(t, 204, "")
	})
}

// foreign checks what a service does to a bucket that is not its own.
func (s *suite) foreign(t *testing.T) {
	bucket, w := s.name("fbk"), s.name("w1")
	s.do(t, "POST", "/system/buckets", map[string]string{"bucket_name": bucket + "/data"}).must(t, 201, "")
	untouched := s.bucket(t, bucket).field(t, "metadata")
	mine := func(t *testing.T) {
		t.Helper()
		s.kept(t, bucket, "", "data/")
		s.bucket(t, bucket).has(t, untouched, "metadata")
	}
	t.Run("refused without the mesh shape", func(t *testing.T) {
		for _, d := range []definition{plain(w, bucket), worker(w, bucket).with("federation", federation("none")), worker(w, bucket).with("federation", federation("star"))} {
			s.post(t, d).want(t, 500, `the bucket "`+bucket+`" already exists`)
			s.get(t, w).want(t, 404, "")
			mine(t)
		}
	})
	t.Run("detach, then delete keeps it", func(t *testing.T) {
		s.post(t, worker(w, bucket)).must(t, 201, "")
		s.get(t, w).has(t, `""`, "token")
		mine(t)
		s.put(t, worker(w, bucket).with("input", []any{}).with("output", []any{})).want(t, 500, noOwner)
		mine(t)
		s.delete(t, w).want(t, 204, "")
		mine(t)
	})
	t.Run("delete takes it", func(t *testing.T) {
		s.post(t, worker(w, bucket)).must(t, 201, "")
		mine(t)
		s.delete(t, w).want(t, 204, "")
		s.gone(t, bucket)
	})
}
