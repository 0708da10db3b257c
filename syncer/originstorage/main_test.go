package originstorage

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

var planTime = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)

var elsewhere = record.OriginStorage{
	ClusterID: "oscar-cluster-z", Endpoint: "https://z.example.org", SSLVerify: true,
	MinioEndpoint: "https://minio.z.example.org", MinioRegion: "eu-1", MinioVerify: true,
}
