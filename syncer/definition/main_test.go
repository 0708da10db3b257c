package definition

import (
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

const uid = "0199c3a2-5f11-7000-8000-000000000001"

var now = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)

// desired is a desired record of generation 2.
func desired(intent record.Intent, change ...func(*record.Desired)) *record.Desired {
	d := &record.Desired{V: 1, Intent: intent, UID: uid, Generation: 2, Owner: oscar.OwnerAdmin, Drift: "enforce"}
	for _, c := range change {
		c(d)
	}
	return d
}

var elsewhere = record.OriginStorage{
	ClusterID: "oscar-cluster-z", Endpoint: "https://z.example.org", SSLVerify: true,
	MinioEndpoint: "https://minio.z.example.org", MinioRegion: "eu-1", MinioVerify: true,
}
