package oscarsim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// ServiceView is a service as Kubernetes holds it, and what MinIO and the Secrets hold for it.
type ServiceView struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Owner       string            `json:"owner"`
	Token       string            `json:"token"`
	Image       string            `json:"image"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
	Inputs      []string          `json:"inputs"`  // paths, "bucket/folder"
	Outputs     []string          `json:"outputs"` // paths
	Secrets     map[string]string `json:"secrets"` // real values; nil without a Secret
	// Readable is false for a half-created service: it is listed, and GET answers 404.
	Readable bool `json:"readable"`
	// Stopped says that an exposed service has no instances.
	Stopped bool `json:"stopped"`
	// Webhook is the token with which the service's webhook is registered in MinIO; Registered says whether it is.
	Webhook    string `json:"webhook"`
	Registered bool   `json:"registered"`
	// JSON is what GET answers.
	JSON json.RawMessage `json:"json"`
}

// BucketView is a bucket.
type BucketView struct {
	Name    string            `json:"name"`
	Objects []string          `json:"objects"` // names, sorted; folders end in a slash
	Tags    map[string]string `json:"tags"`
	Owner   string            `json:"owner"` // tag owner
	// Notifies names the services that uploads start a job of, Dangling those whose webhook is not registered.
	Notifies []string `json:"notifies"`
	Dangling []string `json:"dangling"`
}

// JobView is a Job.
type JobView struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Service   string    `json:"service"`
	Status    string    `json:"status"`
	Event     string    `json:"event"`
	Created   time.Time `json:"created"`
	// MinIO are the keys that it was given of its origin's MinIO; nil for those of its own cluster.
	MinIO *MinIOKeys `json:"minio,omitempty"`
}

var (
	errNoService = errors.New("no such service")
	errNoJob     = errors.New("no such job")
)

// Service returns what is known of a service, half-created ones too.
func (s *Sim) Service(name string) (ServiceView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e := s.kube.find(name)
	if e == nil {
		return ServiceView{}, false
	}
	return s.serviceView(id, e), true
}

func (s *Sim) serviceView(id key, e *entry) ServiceView {
	svc := e.service
	body, err := json.Marshal(svc)
	if err != nil { // plain data: it cannot
		body = nil
	}
	v := ServiceView{
		Name: svc.Name, Namespace: id.namespace, Owner: svc.Owner, Token: svc.Token, Image: svc.Image,
		Annotations: maps.Clone(svc.Annotations), Labels: maps.Clone(svc.Labels),
		Inputs: paths(svc.Input), Outputs: paths(svc.Output), Secrets: maps.Clone(s.kube.secrets[id]),
		Readable: e.template, Stopped: e.halted, JSON: body,
	}
	v.Webhook, v.Registered = s.minio.webhooks[svc.Name]
	return v
}

func paths(list []wire.StorageIOConfig) []string {
	out := []string{}
	for _, io := range list {
		out = append(out, io.Path)
	}
	return out
}

// Policies returns the policies of MinIO that name a bucket, also one that is gone, sorted: users, the bucket's own
// group, and the group of all users.
func (s *Sim) Policies(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for name := range s.minio.policies {
		if s.minio.inPolicy(name, bucket) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Services returns the names of all services, sorted, half-created ones too.
func (s *Sim) Services() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{}
	for id := range s.kube.services {
		names = append(names, id.name)
	}
	slices.Sort(names)
	return names
}

// PutService makes a service that is not the federation's from a JSON definition, complete with
// Secret, webhook, buckets and tags, at once. An owner in the definition is kept; without one it
// is the administrator's. It refuses what POST refuses.
func (s *Sim) PutService(def string) error {
	c := &call{life: s.current(), body: []byte(def)}
	svc, ok := s.decode(c)
	if !ok {
		return errors.New(string(c.answer))
	}
	if svc.Owner == "" {
		svc.Owner = wire.AdminOwner
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if svc.Owner != wire.AdminOwner {
		s.minio.users[svc.Owner] = true
	}
	id, ok := s.admit(c, svc)
	if !ok {
		return errors.New(string(c.answer))
	}
	s.minio.webhooks[svc.Name] = svc.Token
	if s.finishCreate(c, id, svc); len(c.answer) > 0 {
		return errors.New(string(c.answer))
	}
	return nil
}

// HalfCreate makes a service that is listed and that cannot be read, changed or deleted: its
// PodTemplate is missing. An existing service loses its PodTemplate.
func (s *Sim) HalfCreate(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, e := s.kube.find(name); e != nil {
		e.template = false
		return
	}
	svc := &wire.Service{Name: name, Image: "example.org/half", Script: "true", Owner: wire.AdminOwner, Namespace: s.cfg.ServicesNamespace}
	svc.Defaults(s.provider, newToken)
	s.kube.services[key{s.cfg.ServicesNamespace, name}] = &entry{service: svc.Stored()}
}

// LoseLabel takes from a service's ConfigMap the label that OSCAR lists by, as an operator does
// with kubectl. GET goes on showing the service.
func (s *Sim) LoseLabel(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.kube.find(name)
	if e == nil {
		return errNoService
	}
	e.unlabelled = true
	return nil
}

// PutPodTemplate makes an empty PodTemplate for a service that lacks it, which heals it: it can be read and deleted.
func (s *Sim) PutPodTemplate(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.kube.find(name)
	if e == nil {
		return errNoService
	}
	e.template = true
	return nil
}

// LeftoverSecret makes a Secret of that name in the administrator's namespace. It refuses a POST with secrets (409).
func (s *Sim) LeftoverSecret(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kube.secrets[key{s.cfg.ServicesNamespace, name}] = map[string]string{"leftover": "value"}
}

// Secret returns the values of a service's Secret in the administrator's namespace.
func (s *Sim) Secret(name string) (map[string]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.kube.secrets[key{s.cfg.ServicesNamespace, name}]
	return maps.Clone(data), ok
}

// Bucket returns a bucket.
func (s *Sim) Bucket(name string) (BucketView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.minio.buckets[name]
	if b == nil {
		return BucketView{}, false
	}
	return s.bucketView(name, b), true
}

func (s *Sim) bucketView(name string, b *bucket) BucketView {
	v := BucketView{
		Name: name, Objects: slices.Sorted(maps.Keys(b.objects)), Tags: maps.Clone(b.tags), Owner: b.tags["owner"],
		Notifies: []string{}, Dangling: []string{},
	}
	if v.Objects == nil {
		v.Objects = []string{}
	}
	for _, n := range b.notifications {
		if _, ok := s.minio.webhooks[n.service]; ok {
			v.Notifies = append(v.Notifies, n.service)
		} else {
			v.Dangling = append(v.Dangling, n.service)
		}
	}
	return v
}

// Buckets returns the names of all buckets, sorted.
func (s *Sim) Buckets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, slices.Sorted(maps.Keys(s.minio.buckets))...)
}

// PutBucket makes a bucket that is not the federation's, without tags and unknown to OSCAR, or
// adds objects to an existing one. No job is started.
func (s *Sim) PutBucket(name string, objects ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.minio.buckets[name]
	if b == nil {
		b = &bucket{objects: map[string]object{}}
		s.minio.buckets[name] = b
	}
	for _, o := range objects {
		b.objects[o] = object{size: 1, modified: time.Now().UTC()}
	}
}

// RemoveBucket takes a bucket away with its objects, as a user does with MinIO's own client.
func (s *Sim) RemoveBucket(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.minio.buckets, name)
}

// TagBucket makes a bucket that is not the federation's, if there is none, and replaces its tags.
func (s *Sim) TagBucket(name string, tags map[string]string) {
	s.PutBucket(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minio.buckets[name].tags = maps.Clone(tags)
}

// Upload stores an object in an existing bucket. Where the bucket notifies a registered webhook for that name, the
// service gets a job.
func (s *Sim) Upload(bucket, object string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upload(bucket, object, 1)
}

// Jobs returns the Jobs of a service, by name.
func (s *Sim) Jobs(service string) []JobView {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kube.observe(time.Now())
	out := []JobView{}
	for _, j := range s.kube.jobs {
		if j.service == service {
			out = append(out, jobView(j))
		}
	}
	slices.SortFunc(out, func(a, b JobView) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func jobView(j *job) JobView {
	return JobView{Name: j.name, Namespace: j.namespace, Service: j.service, Status: j.status, Event: j.event, Created: j.created, MinIO: j.minio}
}

// AddJob makes a Job of a service in the given state and returns its name.
func (s *Sim) AddJob(service, status string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, e := s.kube.find(service)
	if e == nil {
		return "", errNoService
	}
	name := jobName(service, uuid.NewString())
	if err := s.addJob(e.service, name, "", nil); err != nil {
		return "", err
	}
	j := s.kube.jobs[key{id.namespace, name}]
	s.kube.load.remove(j, time.Now())
	return name, j.become(status)
}

// Starts returns how often each Job was made.
func (s *Sim) Starts() Starts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Starts{Names: maps.Clone(s.kube.starts.names), Events: maps.Clone(s.kube.starts.events)}
}

// DeleteJob deletes a Job and its pod, as an operator does with kubectl.
func (s *Sim) DeleteJob(service, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.kube.jobs {
		if j.service == service && j.name == name {
			return s.kube.deleteJob(j)
		}
	}
	return errNoJob
}

// SetJobStatus changes the state of a Job, as its pod would. From then on it does not
// run by itself.
func (s *Sim) SetJobStatus(service, name, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.kube.jobs {
		if j.service == service && j.name == name {
			s.kube.load.remove(j, time.Now())
			return j.become(status)
		}
	}
	return errNoJob
}

// become moves a Job to a state and sets its times accordingly.
func (j *job) become(status string) error {
	now := time.Now().UTC()
	switch status {
	case JobPending, JobSuspended:
		j.started, j.finished = time.Time{}, time.Time{}
	case JobRunning:
		j.started, j.finished = now, time.Time{}
	case JobSucceeded, JobFailed:
		if j.started.IsZero() {
			j.started = now
		}
		j.finished = now
	case JobUnknown:
	default:
		return fmt.Errorf("unknown job status %q", status)
	}
	j.status = status
	return nil
}

// HoldJob has the next Job of an event wait (Pending) until its state is changed.
func (s *Sim) HoldJob(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kube.load.held == nil {
		s.kube.load.held = map[string]bool{}
	}
	s.kube.load.held[event] = true
}

// SetNodes replaces the nodes of the cluster.
func (s *Sim) SetNodes(nodes ...Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.Clone(nodes)
	s.kube.load.advance(time.Now())
	s.kube.load.nodes = s.nodes
	s.kube.load.schedule(time.Now())
}
