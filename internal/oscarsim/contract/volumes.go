package contract

import (
	"strings"
	"testing"
	"time"
)

// volumes checks when a volume goes with its service, and what a creation does to one that is there. It needs a target
// with managed volumes. All of it was read in the upstream's source.
func (s *suite) volumes(t *testing.T) {
	n, v := s.name("vol"), s.name("data")
	path := "/system/volumes/" + v
	asks := func(fields map[string]string) definition {
		fields["name"], fields["mount_path"] = v, "/data"
		return bare(n).with("volume", fields)
	}
	gone := func(t *testing.T) {
		t.Helper()
		// Kubernetes keeps a claim that is being deleted until its controller has seen that no pod uses it.
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); <-time.After(100 * time.Millisecond) {
			if got := s.do(t, "GET", path, nil); got.status != 200 || !strings.Contains(got.body, `"phase":"deleting"`) {
				break
			}
		}
		s.do(t, "GET", path, nil).want(t, 404, "")
	}
	there := func(t *testing.T, service string) {
		t.Helper()
		got := s.do(t, "GET", path, nil)
		got.must(t, 200, "{..}")
		got.has(t, service, "created_by_service")
	}

	t.Run("deleted with its service, unless it says otherwise [code]", func(t *testing.T) {
		s.post(t, asks(map[string]string{"size": "1Mi"})).must(t, 201, "")
		got := s.get(t, n)
		got.has(t, `{"name":"`+v+`","size":"1Mi","mount_path":"/data","lifecycle_policy":"delete"}`, "volume")
		there(t, `"`+n+`"`)
		s.delete(t, n).want(t, 204, "")
		gone(t)
	})
	t.Run("no change [code]", func(t *testing.T) {
		const refused = "volume updates are not supported after service creation"
		s.post(t, asks(map[string]string{"size": "1Mi", "lifecycle_policy": "retain"})).must(t, 201, "")
		s.put(t, asks(map[string]string{"size": "1Mi"})).want(t, 400, refused)
		s.put(t, asks(map[string]string{"size": "2Mi", "lifecycle_policy": "retain"})).want(t, 400, refused)
		s.put(t, bare(n)).want(t, 400, refused)
		s.put(t, asks(map[string]string{"size": "1Mi", "lifecycle_policy": "retain"}).with("cpu", "0.3")).want(t, 204, "")
		s.do(t, "DELETE", path, nil).want(t, 400, "managed volume is still attached to one or more services")
	})
	t.Run("retained [code]", func(t *testing.T) {
		s.delete(t, n).want(t, 204, "")
		there(t, `"`+n+`"`)
	})
	t.Run("in the way, and left alone [code]", func(t *testing.T) {
		s.post(t, asks(map[string]string{"size": "1Mi", "lifecycle_policy": "retain"})).want(t, 409, "A managed volume with the provided name already exists")
		s.get(t, n).want(t, 404, "")
		there(t, `"`+n+`"`)
	})
	t.Run("used by name [code]", func(t *testing.T) {
		s.post(t, asks(map[string]string{"lifecycle_policy": "retain"})).want(t, 400, "..volume.lifecycle_policy is only valid when volume.size is set")
		s.post(t, asks(map[string]string{})).must(t, 201, "")
		s.get(t, n).has(t, `{"name":"`+v+`","size":"","mount_path":"/data"}`, "volume")
		s.delete(t, n).want(t, 204, "")
		there(t, `"`+n+`"`)
	})
	t.Run("in the way, and deleted [code]", func(t *testing.T) {
		s.post(t, asks(map[string]string{"size": "1Mi"})).want(t, 409, "A managed volume with the provided name already exists")
		gone(t)
	})
	t.Run("not there [code]", func(t *testing.T) {
		s.post(t, asks(map[string]string{})).want(t, 400, "Referenced volume does not exist in the caller namespace")
		s.get(t, n).want(t, 404, "")
		s.do(t, "DELETE", path, nil).want(t, 204, "")
	})
	t.Run("by itself [code]", func(t *testing.T) {
		s.do(t, "POST", "/system/volumes", map[string]string{"name": v, "size": "1Mi"}).must(t, 201, "{..}")
		s.do(t, "POST", "/system/volumes", map[string]string{"name": v, "size": "1Mi"}).want(t, 409, "volume already exists in caller namespace")
		got := s.do(t, "GET", path, nil)
		got.has(t, `"api"`, "creation_mode")
		got.has(t, `"cluster_admin"`, "owner_user")
		s.do(t, "DELETE", path, nil).want(t, 204, "")
		gone(t)
	})
}
