package oscarsim

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// State is the answer of GET /_sim/state.
type State struct {
	ClusterID string                       `json:"cluster_id"`
	Services  []ServiceView                `json:"services"`
	Buckets   []BucketView                 `json:"buckets"`
	Secrets   map[string]map[string]string `json:"secrets"` // by namespace/name
	Jobs      []JobView                    `json:"jobs"`
	Webhooks  map[string]string            `json:"webhooks"`
	Calls     map[string]int               `json:"calls"`
}

// State returns all that the OSCAR holds, Secrets in the clear.
func (s *Sim) State() State {
	calls := s.Calls()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{
		ClusterID: s.cfg.ClusterID, Services: []ServiceView{}, Buckets: []BucketView{}, Secrets: map[string]map[string]string{},
		Jobs: []JobView{}, Webhooks: map[string]string{}, Calls: calls,
	}
	for _, e := range s.kube.list() {
		st.Services = append(st.Services, s.serviceView(key{e.service.Namespace, e.service.Name}, e))
	}
	for name, b := range s.minio.buckets {
		st.Buckets = append(st.Buckets, s.bucketView(name, b))
	}
	slices.SortFunc(st.Buckets, func(a, b BucketView) int { return cmp.Compare(a.Name, b.Name) })
	for id, data := range s.kube.secrets {
		st.Secrets[id.namespace+"/"+id.name] = maps.Clone(data)
	}
	s.kube.observe(time.Now())
	for _, j := range s.kube.jobs {
		st.Jobs = append(st.Jobs, jobView(j))
	}
	slices.SortFunc(st.Jobs, func(a, b JobView) int { return cmp.Compare(a.Name, b.Name) })
	maps.Copy(st.Webhooks, s.minio.webhooks)
	return st
}

// putFault sets a fault: {"op":"create","fault":"hang","count":1,"delay":"2s"}.
func (s *Sim) putFault(c *call) {
	var in struct {
		Fault
		Delay string `json:"delay"`
	}
	err := wire.JSON(c.body, &in)
	if err == nil && in.Delay != "" {
		in.Fault.Delay, err = time.ParseDuration(in.Delay)
	}
	if err == nil {
		err = s.SetFault(in.Fault)
	}
	c.done(err)
}

func (s *Sim) deleteFaults(c *call) {
	s.ClearFaults()
	c.done(nil)
}

func (s *Sim) getState(c *call) { c.json(http.StatusOK, s.State()) }

func (s *Sim) getStarts(c *call) { c.json(http.StatusOK, s.Starts()) }

func (s *Sim) getLog(c *call) { c.json(http.StatusOK, s.Log()) }

func (s *Sim) putService(c *call) { c.done(s.PutService(string(c.body))) }

func (s *Sim) putHalfCreated(c *call) {
	s.HalfCreate(c.params[0])
	c.done(nil)
}

func (s *Sim) putSecret(c *call) {
	s.LeftoverSecret(c.params[0])
	c.done(nil)
}

// putObject uploads the body. A missing bucket is made, as another user's.
func (s *Sim) putObject(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.minio.buckets[c.params[0]] == nil {
		s.minio.buckets[c.params[0]] = &bucket{objects: map[string]object{}}
	}
	c.done(s.upload(c.params[0], c.params[1], int64(len(c.body))))
}

// putJob changes the state of a Job: {"status":"Running"}.
func (s *Sim) putJob(c *call) {
	var in struct {
		Status string `json:"status"`
	}
	if err := wire.JSON(c.body, &in); err != nil {
		c.done(err)
		return
	}
	c.done(s.SetJobStatus(c.params[0], c.params[1], in.Status))
}

// done answers a change through /_sim/.
func (c *call) done(err error) {
	if err != nil {
		c.text(http.StatusBadRequest, err.Error())
		return
	}
	c.code(http.StatusNoContent)
}
