package oscarsim

import (
	"net/http"
	"strings"
)

// Op names what a request does, in faults, counters and the log.
type Op = string

// The operations. OpAny is only for faults and stands for all of them.
const (
	OpCreate       Op = "create"
	OpUpdate       Op = "update"
	OpDelete       Op = "delete"
	OpGet          Op = "get"
	OpList         Op = "list"
	OpJob          Op = "job"
	OpConfig       Op = "config"
	OpConfigUpdate Op = "config_update"
	OpInfo         Op = "info"
	OpStatus       Op = "status"
	OpHealth       Op = "health"
	OpBuckets      Op = "buckets" // list and get
	OpBucketCreate Op = "bucket_create"
	OpBucketUpdate Op = "bucket_update"
	OpBucketDelete Op = "bucket_delete"
	OpPresign      Op = "presign"
	OpUsage        Op = "usage" // quotas and metrics
	OpQuotaUpdate  Op = "quota_update"
	OpVolumes      Op = "volumes" // list and get
	OpVolumeCreate Op = "volume_create"
	OpVolumeDelete Op = "volume_delete"
	OpLogs         Op = "logs" // jobs of a service and output of a job
	OpLogsDelete   Op = "logs_delete"
	OpFederation   Op = "federation"
	OpDeployment   Op = "deployment"
	OpRestart      Op = "restart"
	OpStop         Op = "stop"
	OpStart        Op = "start"
	OpAny          Op = "any"
	// OpMinIO is only for faults, too: what OSCAR asks of its MinIO.
	OpMinIO Op = "minio"

	opControl Op = "_sim"
)

// mutates reports whether requests of that operation are in the log.
func mutates(op Op) bool {
	switch op {
	case OpCreate, OpUpdate, OpDelete, OpRestart, OpStop, OpStart, OpJob, OpConfigUpdate, OpBucketCreate, OpBucketUpdate, OpBucketDelete, OpQuotaUpdate, OpVolumeCreate, OpVolumeDelete, OpLogsDelete:
		return true
	}
	return false
}

// route is one path of the API. A segment ":x" takes any one segment, "*x" as the last one takes the rest.
type route struct {
	method   string
	segments []string
	op       Op
	cost     int  // Kubernetes calls
	basic    bool // the administrator's Basic credentials, or a user's token
	control  bool // the simulator's own: no fault, no throttle
	handle   func(*call)
}

// minioHealth is MinIO's own path, see Config.MinIO.
const minioHealth = "/minio/health/live"

// table is all that OSCAR's router knows.
func (s *Sim) table() []route {
	api := func(method, path string, op Op, cost int, handle func(*call)) route {
		return route{method: method, segments: split(path), op: op, cost: cost, basic: true, handle: handle}
	}
	open := func(method, path string, op Op, cost int, handle func(*call)) route {
		rt := api(method, path, op, cost, handle)
		rt.basic = false
		return rt
	}
	control := func(method, path string, handle func(*call)) route {
		rt := api(method, path, opControl, 0, handle)
		rt.control = true
		return rt
	}
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		open(get, "/health", OpHealth, 0, s.health),
		open(get, minioHealth, OpHealth, 0, func(c *call) { c.code(http.StatusOK) }),
		api(get, "/system/info", OpInfo, 1, s.info),
		api(get, "/system/config", OpConfig, 1, s.config),
		api(put, "/system/config", OpConfigUpdate, 2, s.updateConfig),
		api(get, "/system/status", OpStatus, 5, s.status),
		api(post, "/system/services", OpCreate, 4, s.create),
		api(get, "/system/services", OpList, 1, s.list),
		api(put, "/system/services", OpUpdate, 6, s.update),
		api(get, "/system/services/:service", OpGet, 3, s.get),
		api(del, "/system/services/:service", OpDelete, 8, s.delete),
		api(get, "/system/services/:service/deployment", OpDeployment, 4, s.deployment),
		api(get, "/system/services/:service/deployment/logs", OpDeployment, 4, s.deploymentLogs),
		api(post, "/system/services/:service/restart", OpRestart, 4, s.restart),
		api(post, "/system/services/:service/stop", OpStop, 4, s.stop),
		api(post, "/system/services/:service/start", OpStart, 4, s.start),
		api(get, "/system/federation/:service", OpFederation, 3, s.federation),
		api(get, "/system/buckets", OpBuckets, 0, s.listBuckets),
		api(post, "/system/buckets", OpBucketCreate, 0, s.createBucket),
		api(put, "/system/buckets", OpBucketUpdate, 0, s.updateBucket),
		api(get, "/system/buckets/:bucket", OpBuckets, 0, s.getBucket),
		api(del, "/system/buckets/:bucket", OpBucketDelete, 0, s.deleteBucket),
		api(get, "/system/volumes", OpVolumes, 2, s.listVolumes),
		api(post, "/system/volumes", OpVolumeCreate, 3, s.createVolume),
		api(get, "/system/volumes/:volume", OpVolumes, 2, s.getVolume),
		api(del, "/system/volumes/:volume", OpVolumeDelete, 2, s.deleteVolume),
		api(post, "/system/buckets/:bucket/presign", OpPresign, 0, s.presign),
		api(get, "/system/quotas/user", OpUsage, 2, s.ownQuotas),
		api(get, "/system/quotas/user/:user", OpUsage, 2, s.userQuotas),
		api(put, "/system/quotas/user/:user", OpQuotaUpdate, 2, s.updateQuotas),
		api(get, "/system/metrics", OpUsage, 3, s.metricsSummary),
		api(get, "/system/metrics/breakdown", OpUsage, 3, s.metricsBreakdown),
		api(get, "/system/metrics/:service", OpUsage, 3, s.serviceMetrics),
		api(get, "/system/logs", OpLogs, 4, s.managerLog),
		api(get, "/system/logs/:service", OpLogs, 4, s.jobs),
		api(del, "/system/logs/:service", OpLogsDelete, 4, s.deleteJobs),
		api(get, "/system/logs/:service/:job", OpLogs, 5, s.jobOutput),
		api(del, "/system/logs/:service/:job", OpLogsDelete, 5, s.deleteJob),
		open(post, "/job/:service", OpJob, 3, s.startJob),

		control(put, "/_sim/faults", s.putFault),
		control(del, "/_sim/faults", s.deleteFaults),
		control(get, "/_sim/state", s.getState),
		control(get, "/_sim/log", s.getLog),
		control(get, "/_sim/starts", s.getStarts),
		control(put, "/_sim/services", s.putService),
		control(put, "/_sim/half-created/:service", s.putHalfCreated),
		control(put, "/_sim/secrets/:service", s.putSecret),
		control(put, "/_sim/objects/:bucket/*object", s.putObject),
		control(put, "/_sim/jobs/:service/:job", s.putJob),
	}
}

func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

func (s *Sim) match(method, path string) (*route, []string) {
	segments := split(path)
	for i := range s.routes {
		if rt := &s.routes[i]; rt.method == method {
			if params, ok := rt.params(segments); ok {
				return rt, params
			}
		}
	}
	return nil, nil
}

func (rt *route) params(segments []string) ([]string, bool) {
	var params []string
	for i, want := range rt.segments {
		switch {
		case i >= len(segments) || segments[i] == "":
			return nil, false
		case want[0] == '*':
			return append(params, strings.Join(segments[i:], "/")), true
		case want[0] == ':':
			params = append(params, segments[i])
		case want != segments[i]:
			return nil, false
		}
	}
	return params, len(segments) == len(rt.segments)
}

// unknown answers a path that no route takes: a redirect if only a trailing slash is too much, else gin's 404.
func (s *Sim) unknown(c *call, r *http.Request) {
	trimmed := strings.TrimSuffix(r.URL.Path, "/")
	if rt, _ := s.match(r.Method, trimmed); rt != nil && trimmed != r.URL.Path {
		target := *r.URL
		target.Path, target.RawPath = trimmed, ""
		c.location = target.RequestURI()
		if r.Method != http.MethodGet {
			c.code(http.StatusTemporaryRedirect)
			return
		}
		c.commit(http.StatusMovedPermanently, "text/html; charset=utf-8")
		c.answer = []byte("<a href=\"" + c.location + "\">Moved Permanently</a>.\n\n")
		return
	}
	c.commit(http.StatusNotFound, "text/plain")
	c.answer = []byte("404 page not found")
}
