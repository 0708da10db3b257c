package definition

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestWhoseStorageAWorkerUses(t *testing.T) {
	const url = "http://syncer:8091"
	if p := StorageFor(&elsewhere, url, "https://minio.own"); p == nil || p.local != url || p.Mark() == "" {
		t.Errorf("a worker with a local server: %+v", p)
	}
	if p := StorageFor(nil, url, ""); p != nil || p.Mark() != "" {
		t.Errorf("a coordinator: %+v", p)
	}
	if StorageFor(&elsewhere, "", "") != nil {
		t.Error("without a local server OSCAR would find nobody")
	}
	if StorageFor(&elsewhere, url, "https://minio.z.example.org/") != nil {
		t.Error("OSCAR does not tell two MinIOs of one name apart")
	}
	for _, o := range []record.OriginStorage{{ClusterID: "x"}, {MinioEndpoint: "x"}} {
		if StorageFor(&o, url, "") != nil {
			t.Errorf("%+v is no storage", o)
		}
	}
	marks := map[string]string{}
	for name, change := range map[string]func(*Storage){
		"as it is": func(*Storage) {}, "the cluster": func(p *Storage) { p.ClusterID = "other" }, "the endpoint": func(p *Storage) { p.MinioEndpoint = "https://x" },
		"the region": func(p *Storage) { p.MinioRegion = "x" }, "verify": func(p *Storage) { p.MinioVerify = false }, "our own address": func(p *Storage) { p.local = "http://x" },
	} {
		p := StorageFor(&elsewhere, url, "")
		change(p)
		if other := marks[p.Mark()]; other != "" {
			t.Errorf("%s and %s have one mark", name, other)
		}
		marks[p.Mark()] = name
	}
}

// What the definition says of other storage and clusters stays.
func TestTheStorageIsFilledIn(t *testing.T) {
	body := []byte(`{"name":"w","storage_providers":{"minio":{"other":{"endpoint":"https://o"}},"s3":{"x":{"region":"r"}}},
		"clusters":{"oscar-cluster-z":{"endpoint":"https://z.example.org","ssl_verify":false},"oscar-cluster-y":{"endpoint":"https://y"}}}`)
	patch, err := StorageFor(&elsewhere, "http://syncer:8091", "").patch()
	if err != nil {
		t.Fatal(err)
	}
	if body, err = oscar.MergePatch(body, patch); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"name":"w","storage_providers":{"minio":{"other":{"endpoint":"https://o"},
		"default":{"endpoint":"https://minio.z.example.org","region":"eu-1","verify":true}},"s3":{"x":{"region":"r"}}},
		"clusters":{"oscar-cluster-z":{"endpoint":"http://syncer:8091","ssl_verify":true},"oscar-cluster-y":{"endpoint":"https://y"}}}`), &want); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it is sent %s", body)
	}
}

func TestAServiceStandsWithItsStorage(t *testing.T) {
	shown := func(local, endpoint, region string, verify bool) map[string]any {
		doc, err := DecodeObject(fmt.Appendf(nil, `{"clusters":{"oscar-cluster-z":{"endpoint":%q}},
			"storage_providers":{"minio":{"default":{"endpoint":%q,"region":%q,"verify":%t,"access_key":"hidden"}}}}`, local, endpoint, region, verify))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	rendered, err := DecodeObject([]byte(`{"clusters":{"oscar-cluster-z":{"endpoint":"https://z.example.org"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const url, minio = "http://syncer:8091", "https://minio.z.example.org"
	there := &Definition{origin: &elsewhere, Storage: StorageFor(&elsewhere, url, ""), Compare: rendered}
	own := &Definition{origin: &elsewhere, Compare: rendered}
	none := &Definition{Compare: rendered}
	for _, c := range []struct {
		name  string
		def   *Definition
		shown map[string]any
		want  bool
	}{
		{"as it was sent", there, shown(url, minio, "eu-1", true), true},
		{"another of our addresses", there, shown("http://old:1", minio, "eu-1", true), false},
		{"its own MinIO", there, shown(url, "https://minio.own", "eu-1", true), false},
		{"another region", there, shown(url, minio, "", true), false},
		{"not verified", there, shown(url, minio, "eu-1", false), false},
		{"nothing", there, map[string]any{}, false},
		{"its own storage", own, shown("https://z.example.org", "https://minio.own", "x", true), true},
		{"as it was with a local server", own, shown(url, minio, "eu-1", true), false},
		{"what has no origin", none, shown(url, minio, "eu-1", true), true},
	} {
		if got := c.def.HasStorage(c.shown); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
