package oscarsim

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// RealLatency is how long a create or delete takes on a real OSCAR: it restarts MinIO and sleeps.
const RealLatency = 6200 * time.Millisecond

// Config says what kind of OSCAR to be. The zero value with User and Password is a quick one without faults.
type Config struct {
	// ClusterID only makes the MinIO endpoint distinct: OSCAR itself does not know its own id.
	ClusterID string
	// MinIO is the endpoint of its MinIO; default one where no process listens. Handler answers
	// MinIO's health check, so it may be the same server's.
	MinIO string
	// User and Password are the administrator's Basic credentials.
	User, Password string
	// Name is what the OSCAR is called, the owner of the buckets that its administrator makes. Default oscar.
	Name string
	// Version is what GET /system/info says. Default v4.1.2.
	Version string
	// Latency is how long each create and delete takes, and a PUT for each bucket that is new to the definition.
	// 0 is at once; see RealLatency.
	Latency time.Duration
	// ThrottleGETs makes requests wait as client-go's default limit of 5 calls a second and bursts of 10 does: a list
	// costs 1 call, a read 3, the others what they need.
	ThrottleGETs bool
	// BreakConcurrent refuses connections to MinIO while a create or delete restarts it, so that concurrent ones break
	// each other.
	BreakConcurrent bool
	// RevivesBuckets has MinIO make a bucket again, empty, without tags and notifications, that a DELETE takes away while
	// another call restarts MinIO.
	RevivesBuckets bool
	// ServicesNamespace is where the services of the administrator are, and how the namespaces of its users begin.
	// Default oscar-svc.
	ServicesNamespace string
	// Kubernetes is the cluster below, when there is a real one. It needs no Workload.
	Kubernetes Kubernetes
	// Nodes of the cluster, for /system/status. Default one of 4000 millicores and 8 GiB, of which 500 millicores and
	// 512 MiB are used.
	Nodes []Node
	// Workload makes Jobs run by themselves; nil leaves them Pending until a test says
	// otherwise.
	Workload *Workload
	// Function is what every function of the serverless backend (Knative) does; nil is an OSCAR without one, whose /run is 404.
	Function http.Handler
	// NoMetrics makes /system/status answer as a cluster without metrics.k8s.io: 500 and nothing else.
	NoMetrics bool
	// NoVolumes is an OSCAR with VOLUME_ENABLE=false: /system/volumes is 404. Services have volumes all the same.
	NoVolumes bool
	// Users are let in with bearer tokens when they are in one of Groups, as by an OSCAR with OIDC enabled; nil is one
	// without.
	Users  UserSource
	Groups []string
	// Dial connects to other clusters' OSCARs, whose MinIO a Job uses. Default: the network of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one debug line per request. Default: none.
	Logger *slog.Logger
}

// Node is a Kubernetes node. CPU in millicores, memory in bytes.
type Node struct {
	Name                      string
	CPU, Memory               int64 // allocatable
	UsedCPU, UsedMemory       int64 // as metrics.k8s.io reports
	RequestCPU, RequestMemory int64 // of the pods on it
	GPU                       int64
	NotReady                  bool
	// Interlink nodes are the fronts of other machines.
	Interlink bool
}

func (c Config) withDefaults() Config {
	c.ClusterID = cmp.Or(c.ClusterID, "oscar")
	c.Name = cmp.Or(c.Name, "oscar")
	c.Version = cmp.Or(c.Version, "v4.1.2")
	c.ServicesNamespace = cmp.Or(c.ServicesNamespace, "oscar-svc")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.Nodes) == 0 {
		c.Nodes = []Node{{Name: c.ClusterID + "-node-1", CPU: 4000, Memory: 8 << 30, UsedCPU: 500, UsedMemory: 512 << 20}}
	}
	return c
}

// provider is the cluster's own MinIO with its root keys, as the administrator sees it.
func (c Config) provider() wire.MinIOProvider {
	return wire.MinIOProvider{
		Endpoint: cmp.Or(c.MinIO, "http://minio."+c.ClusterID+".example.org:9000"), Verify: true,
		AccessKey: "minio", SecretKey: "sim-" + c.ClusterID + "-root-key", Region: "us-east-1",
	}
}
