package federations

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// A PUT that only gave new keys for the MinIO of a definition was answered 204, and
// nothing was changed.
func TestNewKeysOfAnOwnMinIOAreAChange(t *testing.T) {
	fed := &record.Federation{GroupID: "svc", Members: []record.Member{{ClusterID: "a", ServiceName: "svc", Coordinator: true}}}
	service := func(provider string) *oscar.Service {
		s, violations := oscar.ParseService([]byte(`{"name":"svc","image":"i","script":"s","storage_providers":{"minio":{` + provider + `}}}`))
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		return s
	}
	const own = `"default":{"endpoint":"https://own","access_key":"k","secret_key":"s"}`
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"the same", own, own, true},
		{"another secret key", own, `"default":{"endpoint":"https://own","access_key":"k","secret_key":"rotated"}`, false},
		{"another access key", own, `"default":{"endpoint":"https://own","access_key":"rotated","secret_key":"s"}`, false},
		{"no keys any more", own, `"default":{"endpoint":"https://own"}`, false},
		{"what an answer shows of the cluster's own", "", `"default":{"access_key":"hidden","secret_key":"hidden"}`, true},
		{"keys of another provider", `"m":{"endpoint":"https://m","access_key":"k","secret_key":"s"}`, `"m":{"endpoint":"https://m","access_key":"k","secret_key":"x"}`, false},
	} {
		if got := sameDefinition(service(tc.a), service(tc.b), fed); got != tc.same {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
