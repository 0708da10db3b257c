package topology

import (
	"testing"
)

func TestWhoseMinIOAWorkerUses(t *testing.T) {
	const (
		input     = `"input":[{"storage_provider":"minio.default","path":"b/in"}]`
		output    = `"output":[{"storage_provider":"MINIO","path":"b/out"}]`
		elsewhere = `"output":[{"storage_provider":"minio.shared","path":"b/out"},{"storage_provider":"s3.default","path":"b/out"}]`
		dcache    = `"input":[{"storage_provider":"webdav.dcache","path":"b/in"}]`
		given     = `"storage_providers":{"minio":{"default":{"endpoint":"https://minio.example.org","access_key":"mine","secret_key":"mine"}}}`
		answered  = `"storage_providers":{"minio":{"default":{"endpoint":"https://minio.a.example.org","access_key":"hidden","secret_key":"hidden"}}}`
		shared    = `"storage_providers":{"minio":{"shared":{"endpoint":"https://minio.example.org","access_key":"mine","secret_key":"mine"}}}`
		mounted   = `"mount":{"storage_provider":"minio.default","path":"b/m"}`
		mounted2  = `"mount":{"storage_provider":"minio.shared","path":"b/m"}`
	)
	for name, c := range map[string]struct {
		parts         string
		shares, reads bool
	}{
		"neither input nor output":        {`"cpu":"1"`, false, false},
		"an input":                        {input, true, true},
		"an output, the id left out":      {output, true, false},
		"both":                            {input + "," + output, true, true},
		"other providers only":            {elsewhere + "," + dcache, false, false},
		"an input, outputs elsewhere":     {elsewhere + "," + input, true, true},
		"the definition says where it is": {input + "," + given, false, true},
		"OSCAR's own answer is sent back": {input + "," + answered, true, true},
		"another MinIO is given too":      {input + "," + shared, true, true},
		"a mount of it":                   {input + "," + mounted, false, true},
		"a mount of another":              {input + "," + mounted2 + "," + shared, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, `{"name":"svc","cluster_id":"a","image":"i","script":"s",`+c.parts+`}`)
			if got := SharesStorage(s); got != c.shares {
				t.Errorf("the workers use the origin's: %v, want %v", got, c.shares)
			}
			if got := ReadsDefault(s); got != c.reads {
				t.Errorf("its events name objects in minio.default: %v, want %v", got, c.reads)
			}
		})
	}
}
