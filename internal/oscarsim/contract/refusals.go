package contract

import (
	"strings"
	"testing"
)

const invalid = "The service specification is not valid: "

// refusals checks what POST refuses. Nothing is there afterwards.
func (s *suite) refusals(t *testing.T) {
	x := s.name("x")
	quick := []struct {
		name   string
		body   any
		status int
		want   string
	}{
		{"truncated", `{"name":"` + x + `"`, 400, invalid + "unexpected EOF"},
		{"array", `[]`, 400, invalid + "json: cannot unmarshal array into Go value of type types.Service"},
		{"cpu a number", bare(x).with("cpu", 1), 400, invalid + "json: cannot unmarshal number into Go struct field Service.cpu of type string"},
		{"no image, no script", bare(x).without("image", "script"), 400, invalid + "Key: 'Service.Image' Error:Field validation for 'Image' failed on the 'required' tag\nKey: 'Service.Script' Error:Field validation for 'Script' failed on the 'required' tag"},
		{"name of 40", bare(x + strings.Repeat("x", 40-len(x))), 400, invalid + "Key: 'Service.Name' Error:Field validation for 'Name' failed on the 'max' tag"},
		{"name not for Kubernetes", bare("Bad_Name"), 500, `Error creating the service: ConfigMap "Bad_Name" is invalid: metadata.name: ..RFC 1123..`},
		{"cpu lots", bare(x).with("cpu", "lots"), 500, "Error creating the service: quantities must match the regular expression .."},
		{"memory lots", bare(x).with("memory", "lots"), 500, "Error creating the service: quantities must match the regular expression .."},
		{"input path /", bare(x).with("input", files("/")), 400, "input path cannot be empty"},
		{"output path / [code]", bare(x).with("output", files("/")), 400, "output path cannot be empty"},
		{"members without refresh token", bare(x).with("federation", listed("star")), 400, "refresh_token secret is required for federated services"},
	}
	for _, c := range quick {
		t.Run(c.name, func(t *testing.T) {
			s.post(t, c.body).want(t, c.status, c.want)
			s.get(t, x).want(t, 404, "")
		})
	}
	t.Run("input provider not minio", func(t *testing.T) {
		s.post(t, bare(x).with("input", []map[string]string{{"storage_provider": "onedata.o", "path": "a/b"}})).want(t, 400, "unrecognized input (valid inputs are MinIO and dCache)")
		s.get(t, x).want(t, 404, "")
	})
	t.Run("output provider undefined", func(t *testing.T) {
		s.post(t, plain(x, x).with("output", []map[string]string{{"storage_provider": "minio.other", "path": "a/b"}})).want(t, 500, `the StorageProvider "minio.other" is not defined`)
		s.get(t, x).want(t, 404, "")
		s.gone(t, x)
	})
	t.Run("name of two letters", func(t *testing.T) {
		s.get(t, "s1").must(t, 404, "") // it is not ours to touch
		s.post(t, plain("s1", "s1")).want(t, 500, "error creating bucket s1: InvalidBucketName..")
		s.get(t, "s1").want(t, 404, "")
	})
	t.Run("bucket exists, Secret left over", func(t *testing.T) {
		// A POST that Kubernetes refuses leaves its Secret [code]; only a POST without secrets gets past it.
		secrets := map[string]any{"secrets": map[string]string{"k": "v"}}
		s.post(t, bare(x).with("environment", secrets).with("cpu", "lots")).want(t, 500, "Error creating the service: quantities ..")
		s.post(t, bare(x).with("environment", secrets)).want(t, 409, "A secret with the given name already exists")
		s.do(t, "POST", "/system/buckets", map[string]string{"bucket_name": x + "/data"}).want(t, 201, "")
		s.post(t, plain(x, x)).want(t, 500, `the bucket "`+x+`" already exists`)
		s.get(t, x).want(t, 404, "")
		s.kept(t, x, "", "data/")
		// That refusal took the Secret with it.
		s.post(t, bare(x).with("environment", secrets)).want(t, 201, "")
		s.delete(t, x).want(t, 204, "")
		s.kept(t, x, "", "data/")
		s.do(t, "DELETE", "/system/buckets/"+x, nil).want(t, 204, "")
		s.gone(t, x)
	})
}
