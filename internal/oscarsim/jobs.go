package oscarsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// States of a Job: the phase of its pod, or Suspended when it has none.
const (
	JobPending   = "Pending"
	JobRunning   = "Running"
	JobSucceeded = "Succeeded"
	JobFailed    = "Failed"
	JobSuspended = "Suspended"
	// JobUnknown is one whose node does not answer.
	JobUnknown = "Unknown"
)

const (
	tokenLength = 64 // of a service token: 32 bytes in hex
	jobsPerPage = 70
)

// startJob makes a Job for an event. The service's own token counts, and, with OIDC, that of a user who sees the
// service and has been here before; without OIDC any other one ends in a 502 whose text two checks have written.
func (s *Sim) startJob(c *call) {
	parts := strings.Split(c.header.Get("Authorization"), "Bearer ")
	if len(parts) != 2 {
		c.code(http.StatusUnauthorized)
		return
	}
	token := strings.TrimSpace(parts[1])
	var user User
	var unknown error
	if len(token) != tokenLength && s.cfg.Users != nil && strings.Count(token, ".") == 2 {
		user, unknown = s.cfg.Users(c.life.ctx, token)
	}
	svc := s.jobService(c, token, user, unknown)
	if svc == nil {
		return
	}
	keys, err := s.originKeys(c, svc, user.Subject)
	if c.life.ctx.Err() != nil {
		c.drop()
		return
	}
	if err != nil {
		c.text(http.StatusInternalServerError, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.header.Get("X-Delegated-Job-ID")
	if name == "" {
		name = jobName(c.service, uuid.NewString())
	}
	if keys != nil {
		if err := s.kube.createSecret(key{svc.Namespace, keys.Secret}, map[string]string{"accessKey": keys.AccessKey, "secretKey": keys.SecretKey}); err != nil {
			c.text(http.StatusInternalServerError, err.Error())
			return
		}
	}
	if err := s.addJob(svc, name, string(c.body), keys); err != nil {
		c.text(http.StatusInternalServerError, err.Error())
		return
	}
	c.code(http.StatusCreated)
}

// jobService is the service that a Job is to be of; nil when the answer is given.
func (s *Sim) jobService(c *call, token string, user User, unknown error) *wire.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(token) != tokenLength {
		return s.serviceForJob(c, token, user, unknown)
	}
	if _, e := s.kube.find(c.service); e != nil && e.service.Token == token {
		return e.service
	}
	c.code(http.StatusUnauthorized)
	return nil
}

// originKeys gets the keys of the origin's MinIO, where a Job of the service needs them; nil where not.
func (s *Sim) originKeys(c *call, svc *wire.Service, sender string) (*MinIOKeys, error) {
	s.mu.Lock()
	o, err := s.originOf(svc)
	s.mu.Unlock()
	if err != nil || o == nil {
		return nil, err
	}
	return o.keys(c.life.ctx, c.header.Get("Authorization"), eventUser(c.body, sender))
}

// egiUser is a subject of EGI, of which OSCAR keeps what stands before the @.
var egiUser = regexp.MustCompile(`[0-9a-z]+@`)

// serviceForJob is the service that a user may start a Job of; nil when the answer is given. OSCAR compares owners
// with the user's shortened name here, so that a private service of an EGI user is not found by himself. The caller
// holds the lock.
func (s *Sim) serviceForJob(c *call, token string, user User, unknown error) *wire.Service {
	switch {
	case s.cfg.Users == nil, strings.Count(token, ".") != 2:
		c.text(http.StatusBadGateway, "token is malformed: token contains an invalid number of segments")
		c.text(http.StatusBadRequest, "Error getting oidc manager for issuer ''")
		return nil
	case unknown != nil:
		c.code(http.StatusInternalServerError) // it falls over what userinfo did not answer
		return nil
	}
	short := user
	short.Subject = shortName(user.Subject)
	_, e := s.kube.find(c.service)
	switch {
	case e == nil || !(&call{user: &short}).mayRead(e.service):
		c.code(http.StatusNotFound)
	case s.denied[user.Subject] || !slices.ContainsFunc(user.Groups, func(g string) bool { return slices.Contains(s.cfg.Groups, g) }):
		c.code(http.StatusUnauthorized)
	case !s.minio.users[user.Subject]:
		c.text(http.StatusForbidden, fmt.Sprintf("MinIO user not provisioned for %s; submit a direct request first", user.Subject))
	default:
		return e.service
	}
	return nil
}

// addJob makes a pending Job, with the keys of another cluster's MinIO or those of its own (nil). The caller holds the lock.
func (s *Sim) addJob(svc *wire.Service, name, event string, keys *MinIOKeys) error {
	return s.kube.createJob(&job{
		name: name, namespace: svc.Namespace, service: svc.Name, status: JobPending, event: event, minio: keys, created: time.Now().UTC(),
	}, svc)
}

// upload stores an object and, where a live notification matches, starts a Job as MinIO's webhook does. The caller
// holds the lock.
func (s *Sim) upload(bucketName, name string, size int64) error {
	b := s.minio.buckets[bucketName]
	if b == nil {
		return errNoSuchBucket
	}
	b.objects[name] = object{size: size, modified: time.Now().UTC()}
	for _, n := range s.minio.visible(b) {
		if !strings.HasPrefix(name, n.prefix) {
			continue
		}
		_, e := s.kube.find(n.service)
		token := s.minio.webhooks[n.service]
		if e == nil || len(token) != tokenLength || e.service.Token != token {
			continue // OSCAR answers MinIO 401 and the event is lost
		}
		event, err := uploadEvent(bucketName, name, size)
		if err == nil {
			err = s.addJob(e.service, jobName(n.service, uuid.NewString()), event, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uploadEvent is the body that MinIO sends.
func uploadEvent(bucketName, name string, size int64) (string, error) {
	type named struct {
		Name string `json:"name"`
	}
	type stored struct {
		Key  string `json:"key"`
		Size int64  `json:"size"`
	}
	type record struct {
		EventName string            `json:"eventName"`
		Request   map[string]string `json:"requestParameters"`
		S3        struct {
			Bucket named  `json:"bucket"`
			Object stored `json:"object"`
		} `json:"s3"`
	}
	r := record{EventName: "s3:ObjectCreated:Put", Request: map[string]string{"principalId": "minio", "sourceIPAddress": "127.0.0.1"}}
	r.S3.Bucket.Name, r.S3.Object = bucketName, stored{name, size}
	event, err := json.Marshal(struct {
		EventName string   `json:"EventName"`
		Key       string   `json:"Key"`
		Records   []record `json:"Records"`
	}{"s3:ObjectCreated:Put", bucketName + "/" + name, []record{r}})
	return string(event), err
}

type jobInfo struct {
	Status  string `json:"status"`
	Created string `json:"creation_time,omitempty"`
	Started string `json:"start_time,omitempty"`
	Ended   string `json:"finish_time,omitempty"`
}

// jobs lists the Jobs of a service. creation_time is the start of the pod and absent while it is pending.
func (s *Sim) jobs(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e, err := s.kube.read("", c.service)
	if err != nil {
		c.code(http.StatusNotFound)
		return
	}
	if !c.mayRead(e.service) {
		return // 200 without a body
	}
	answer := struct {
		Jobs      map[string]jobInfo `json:"jobs"`
		NextPage  string             `json:"next_page,omitempty"`
		Remaining *int               `json:"remaining_jobs,omitempty"`
	}{Jobs: map[string]jobInfo{}}
	s.kube.observe(time.Now())
	all := s.kube.jobsOf(id)
	after := c.query("page")
	first, _ := slices.BinarySearchFunc(all, after, func(j *job, name string) int { return cmp.Compare(j.name, name) })
	for i := first; i < len(all); i++ {
		j := all[i]
		if j.name <= after {
			continue
		}
		if len(answer.Jobs) == jobsPerPage {
			answer.NextPage, answer.Remaining = all[i-1].name, new(len(all)-i)
			break
		}
		info := jobInfo{Status: j.status, Started: stamp(j.started), Ended: stamp(j.finished)}
		info.Created = info.Started
		answer.Jobs[j.name] = info
	}
	c.json(http.StatusOK, answer)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// deleteJobs removes the succeeded Jobs of a service, or all of them.
func (s *Sim) deleteJobs(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e, err := s.kube.read("", c.service)
	if err != nil {
		c.code(http.StatusNotFound)
		return
	}
	if !c.mayRead(e.service) {
		return // 200 without a body
	}
	all := c.query("all")
	if err := s.kube.deleteJobs(id, all == "true" || all == "1" || all == "t" || all == "TRUE" || all == "True" || all == "T"); err != nil {
		c.text(http.StatusInternalServerError, err.Error())
		return
	}
	c.code(http.StatusNoContent)
}

// jobOutput answers the output of a Job's pod. An unknown Job makes OSCAR panic: 500 without a body.
func (s *Sim) jobOutput(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e, err := s.kube.read("", c.service)
	if err != nil {
		c.code(http.StatusNotFound)
		return
	}
	if !c.mayRead(e.service) {
		return // 200 without a body
	}
	s.kube.observe(time.Now())
	j := s.kube.jobs[key{id.namespace, c.params[1]}]
	switch {
	case j == nil || j.service != c.service || j.status == JobSuspended:
		c.code(http.StatusInternalServerError)
	case j.status == JobPending:
		c.code(http.StatusNotFound)
	case c.query("timestamps") == "true":
		c.text(http.StatusOK, j.started.Format(time.RFC3339Nano)+" "+s.kube.output(j))
	default:
		c.text(http.StatusOK, s.kube.output(j))
	}
}

// deleteJob removes one Job.
func (s *Sim) deleteJob(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e, err := s.kube.read("", c.service)
	if err != nil || !c.mayRead(e.service) {
		c.text(http.StatusForbidden, "You do not have permission to access this service")
		return
	}
	s.kube.observe(time.Now())
	jobID := key{id.namespace, c.params[1]}
	j := s.kube.jobs[jobID]
	if j == nil || j.service != c.service {
		c.code(http.StatusNotFound)
		return
	}
	if err := s.kube.deleteJob(j); err != nil {
		c.text(http.StatusInternalServerError, err.Error())
		return
	}
	c.code(http.StatusNoContent)
}
