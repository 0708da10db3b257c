package oscarsim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// What OSCAR v4.1.2 answers about quotas and usage. Nothing is measured here: quotas are without
// limit and the usage is nothing, in the form of the real answers.

type quotas struct {
	User    string       `json:"user_id"`
	Volumes volumeQuotas `json:"volumes"`
	MinIO   minioQuotas  `json:"minio"`
}

type volumeQuotas struct {
	Disk         used   `json:"disk"`
	Volumes      used   `json:"volumes"`
	MaxPerVolume string `json:"max_disk_per_volume"`
	MinPerVolume string `json:"min_disk_per_volume"`
}

type used struct {
	Max  string `json:"max,omitempty"`
	Used string `json:"used,omitempty"`
}

type minioQuotas struct {
	Buckets struct {
		Max  int64 `json:"max"`
		Used int64 `json:"used"`
	} `json:"buckets"`
	PerBucket used `json:"storage_per_bucket"`
	Total     used `json:"storage_total"`
}

// quotasOf describes the quotas of a user. The caller holds the lock.
func (s *Sim) quotasOf(subject string) quotas {
	out := quotas{User: subject}
	for _, b := range s.minio.buckets {
		if b.tags["owner"] == subject {
			out.MinIO.Buckets.Used++
		}
	}
	out.MinIO.PerBucket.Max, out.MinIO.Total.Used = "0", "0"
	n := 0
	for _, v := range s.kube.volumes {
		if v.owner == subject {
			n++
		}
	}
	out.Volumes.Volumes.Used = fmt.Sprint(n)
	return out
}

// ownQuotas answers a user; the administrator has no id.
func (s *Sim) ownQuotas(c *call) {
	if c.user == nil {
		c.text(http.StatusUnauthorized, "missing user identificator: missing user identificator")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.json(http.StatusOK, s.quotasOf(c.user.Subject))
}

// userQuotas answers the administrator.
func (s *Sim) userQuotas(c *call) {
	if c.user != nil {
		c.text(http.StatusForbidden, "forbidden")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.json(http.StatusOK, s.quotasOf(c.params[0]))
}

// updateQuotas checks a change and keeps nothing of it.
func (s *Sim) updateQuotas(c *call) {
	if c.user != nil {
		c.text(http.StatusForbidden, "forbidden")
		return
	}
	var in map[string]any
	if err := wire.JSON(c.body, &in); err != nil {
		c.text(http.StatusBadRequest, "invalid payload: "+err.Error())
		return
	}
	if !slices.ContainsFunc([]string{"cpu", "memory", "ephemeral_storage", "volumes", "minio"}, func(key string) bool { return in[key] != nil && in[key] != "" }) {
		c.text(http.StatusBadRequest, "cpu, memory, ephemeral_storage, volumes or minio must be provided")
		return
	}
	s.userQuotas(c)
}

// interval is the time that a question about usage is of. It answers those whose times are none.
func interval(c *call) (from, to time.Time, ok bool) {
	to = c.came.UTC()
	from = to.Add(-24 * time.Hour)
	for name, at := range map[string]*time.Time{"start": &from, "end": &to} {
		if text := c.query(name); text != "" {
			parsed, err := time.Parse(time.RFC3339, text)
			if err != nil {
				c.json(http.StatusBadRequest, map[string]string{"error": "invalid " + name + " time"})
				return from, to, false
			}
			*at = parsed
		}
	}
	return from, to, true
}

// metricsSummary answers GET /system/metrics.
func (s *Sim) metricsSummary(c *call) {
	from, to, ok := interval(c)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.kube.list() {
		if c.mayRead(e.service) {
			n++
		}
	}
	c.json(http.StatusOK, map[string]any{
		"start": from, "end": to, "sources": []string{},
		"totals": map[string]any{
			"services_count_active": n, "services_count_total": n, "cpu_hours_total": 0, "gpu_hours_total": 0,
			"requests_count_total": 0, "requests_count_sync": 0, "requests_count_async": 0, "requests_count_exposed": 0,
			"countries_count": 0, "countries": []string{}, "users_count": 0, "users": []string{},
		},
	})
}

// metricsBreakdown answers GET /system/metrics/breakdown.
func (s *Sim) metricsBreakdown(c *call) {
	from, to, ok := interval(c)
	if !ok {
		return
	}
	by, format := c.query("group_by"), strings.ToLower(cmp.Or(c.query("format"), "json"))
	fail := func(text string) { c.json(http.StatusBadRequest, map[string]string{"error": text}) }
	switch {
	case by == "":
		fail("group_by is required")
	case format != "json" && format != "csv":
		fail("invalid format")
	case by != "service" && by != "user" && by != "country":
		fail("unsupported group_by")
	case format == "csv":
		c.commit(http.StatusOK, "text/csv")
		c.answer = append(c.answer, "key\n"...)
	default:
		c.json(http.StatusOK, map[string]any{"start": from, "end": to, "group_by": by, "items": []string{}})
	}
}

// serviceMetrics answers GET /system/metrics/:service.
func (s *Sim) serviceMetrics(c *call) {
	name := c.params[0]
	s.mu.Lock()
	_, e := s.kube.find(name)
	s.mu.Unlock()
	switch {
	case c.user != nil && e == nil:
		c.code(http.StatusNotFound)
		return
	case c.user != nil && !c.mayRead(e.service):
		c.code(http.StatusForbidden)
		return
	}
	from, to, ok := interval(c)
	if !ok {
		return
	}
	keys := []string{"cpu-hours", "gpu-hours", "requests-sync-per-service", "requests-async-per-service", "requests-exposed-per-service", "users-per-service"}
	if metric := c.query("metric"); metric != "" {
		if !slices.Contains(keys, metric) {
			c.json(http.StatusBadRequest, map[string]string{"error": "invalid metric key"})
			return
		}
		c.json(http.StatusOK, map[string]any{"service_id": name, "metric": metric, "start": from, "end": to, "value": 0, "sources": []string{}})
		return
	}
	var values []map[string]any
	for _, key := range keys {
		values = append(values, map[string]any{"metric": key, "value": 0, "sources": []string{}})
	}
	c.json(http.StatusOK, map[string]any{"service_name": name, "start": from, "end": to, "metrics": values})
}

// presign answers POST /system/buckets/:bucket/presign with a link to Objects.
func (s *Sim) presign(c *call) {
	var in struct {
		Object    string `json:"object_key"`
		Operation string `json:"operation"`
		Expires   int64  `json:"expires_in"`
	}
	if err := wire.JSON(c.body, &in); err != nil {
		c.text(http.StatusBadRequest, "Invalid presign request: "+err.Error())
		return
	}
	bucket, object, operation := c.params[0], strings.Trim(strings.TrimSpace(in.Object), "/"), strings.ToLower(strings.TrimSpace(in.Operation))
	method := map[string]string{"upload": http.MethodPut, "download": http.MethodGet}[operation]
	expires := cmp.Or(in.Expires, 900)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case in.Object == "" || in.Operation == "":
		c.text(http.StatusBadRequest, "Invalid presign request: Key: 'PresignRequest.ObjectKey' Error:Field validation")
	case object == "":
		c.text(http.StatusBadRequest, "Object key cannot be empty")
	case method == "":
		c.text(http.StatusBadRequest, fmt.Sprintf("Unsupported operation '%s'. Allowed values are 'upload' or 'download'", in.Operation))
	case expires < 1 || expires > 7*24*3600:
		c.text(http.StatusBadRequest, fmt.Sprintf("Invalid expiration requested: %d. Allowed range is 1-604800 seconds", expires))
	case s.minio.buckets[bucket] == nil:
		c.text(http.StatusNotFound, fmt.Sprintf("Bucket '%s' not found", bucket))
	case !s.ownsBucket(c, bucket) && !s.minio.inPolicy("all_users_group", bucket):
		c.text(http.StatusForbidden, fmt.Sprintf("User '%s' is not authorised to generate presigned URLs for bucket '%s'", c.user.Subject, bucket))
	default:
		until := c.came.UTC().Add(time.Duration(expires) * time.Second)
		c.json(http.StatusOK, map[string]string{
			"object_key": object, "operation": operation, "method": method, "url": s.presigned(method, bucket, object, until),
			"expires_at": until.Format(time.RFC3339),
		})
	}
}

// managerLog answers GET /system/logs; no requests are kept.
func (s *Sim) managerLog(c *call) {
	if c.user != nil {
		c.text(http.StatusForbidden, "OIDC tokens are not allowed for system logs")
		return
	}
	c.json(http.StatusOK, map[string]any{"logs": []string{}})
}
