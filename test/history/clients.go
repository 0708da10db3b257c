package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

// Limits of one request. What users ask for is asked once.
const (
	freeWait   = time.Minute
	jobTries   = 6
	jobPause   = 2 * time.Second
	jobService = "work"
	// secret is in every free service, and may not be readable anywhere in the store.
	secret = "canary-secret-of-a-history"
)

// users are the clients that have no order to prove.
type users struct {
	api      func() *client.Client
	clusters []string

	mu sync.Mutex
	// strange are answers that may never be given.
	strange []string
	// jobs are the ids of accepted events.
	jobs map[int]string
	// replayed counts what was asked for once more on purpose.
	replayed map[int]int
	// submitted and cancelled are the times at which that was asked for an event, and lost says whether it may be
	// forgotten.
	submitted, cancelled map[int][]span
	lost                 func([]span) bool
	// keepsRequest is how long an idempotency key is kept.
	keepsRequest time.Duration
}

func newUsers(api func() *client.Client, clusters []string) *users {
	return &users{api: api, clusters: clusters, jobs: map[int]string{}, replayed: map[int]int{}, submitted: map[int][]span{}, cancelled: map[int][]span{}}
}

// look keeps an answer that may never be given: an error of the control plane's own.
func (u *users) look(what string, err error) {
	var e *client.Error
	if !errors.As(err, &e) || e.Code() != v1.CodeInternal {
		return
	}
	u.strangef("%s: %v", what, err)
}

// strangef keeps what may never be answered.
func (u *users) strangef(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.strange = append(u.strange, fmt.Sprintf(format, args...))
}

func freeName(service int) string { return fmt.Sprintf("free%d", service) }

// free makes one operation on a service of its own.
func (u *users) free(ctx context.Context, f Free) {
	ctx, cancel := context.WithTimeout(ctx, freeWait)
	defer cancel()
	name, api, home := freeName(f.Service), u.api(), u.clusters[f.Service%len(u.clusters)]
	opts := client.ChangeOptions{Async: true, ClusterID: home}
	var err error
	switch f.Op {
	case freeCreate:
		_, err = api.CreateService(ctx, u.definition(name, home, f), client.CreateOptions{Wait: freeWait / 2})
	case freePlan:
		_, err = api.Plan(ctx, u.definition(name, home, f), client.PlanOptions{})
	case freeChange:
		s := u.definition(name, home, f)
		if f.Topology == string(oscar.TopologyNone) && f.Members&(1<<(f.Service%len(u.clusters))) != 0 { // says nothing of members
			s.Federation, s.Environment.Secrets = nil, nil // they stay as they are
		}
		_, err = api.ChangeService(ctx, s, opts)
	case freeAdd:
		_, err = api.AddReplicas(ctx, name, u.members(name, home, f.Members), opts)
	case freeRemove:
		_, err = api.RemoveReplicas(ctx, name, u.members(name, home, f.Members), opts)
	case freeDelete:
		_, err = api.DeleteService(ctx, name, client.DeleteOptions{ClusterID: home})
	case freeRollback:
		_, err = api.Rollback(ctx, name, 1, opts)
	case freePause, freeResume:
		_, err = api.Pause(ctx, name, home, f.Op == freePause)
	case freeRotate:
		_, err = api.RotateToken(ctx, name, home)
	case freeTogether:
		err = u.together(ctx, f)
	case freeStop, freeStart:
		_, err = api.SetRunState(ctx, name, home, f.Op == freeStop, time.Second)
	}
	u.look(f.String(), err)
}

// members are those of a set of clusters, but for the service's own.
func (u *users) members(name, home string, set uint8) []oscar.Member {
	var out []oscar.Member
	for i, id := range u.clusters {
		if set&(1<<i) != 0 && id != home {
			out = append(out, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: id, ServiceName: name})
		}
	}
	return out
}

func (u *users) definition(name, home string, f Free) *oscar.Service {
	federation := map[string]any{"topology": f.Topology}
	if members := u.members(name, home, f.Members); f.Topology != string(oscar.TopologyNone) && len(members) > 0 {
		federation["members"] = members
	}
	script := "#!/bin/sh\n# " + f.String() + "\n"
	if len(script)%2 == 0 {
		script += strings.Repeat("# so long that it is a part\n", 100)
	}
	def := map[string]any{
		"name": name, "cluster_id": home, "image": "ghcr.io/grycap/imagemagick", "script": script,
		"environment": map[string]any{"secrets": map[string]string{"KEY": secret}},
		"input":       []map[string]string{{"storage_provider": "minio.default", "path": name + "/in"}},
		"federation":  federation,
	}
	if f.Service == exposedService {
		def["expose"] = map[string]int{"api_port": 8080, "min_scale": 1, "max_scale": 2}
	}
	return mustParse(def)
}

// mustParse reads a definition that is valid by construction.
func mustParse(def map[string]any) *oscar.Service {
	doc, err := json.Marshal(def)
	if err != nil {
		panic(err)
	}
	s, violations := oscar.ParseService(doc)
	if len(violations) > 0 {
		panic(fmt.Sprint(string(doc), violations))
	}
	return s
}

// workers creates the service that events are submitted to: with a replica on every cluster, and
// jobs that any of them may take.
func (u *users) workers(ctx context.Context, delegation string) error {
	members := u.members(jobService, u.clusters[0], ^uint8(0))
	_, err := u.api().CreateService(ctx, mustParse(map[string]any{
		"name": jobService, "cluster_id": u.clusters[0], "image": "ghcr.io/grycap/imagemagick", "script": "#!/bin/sh\n", "cpu": "1.0", "memory": "256Mi",
		"federation": map[string]any{"topology": "mesh", "delegation": delegation, "members": members},
	}), client.CreateOptions{Wait: 10 * time.Minute})
	return err
}

func event(n int) string { return fmt.Sprintf("event %d", n) }

// job makes one operation on jobs. A submission is sent again, under its key, until it is answered.
func (u *users) job(ctx context.Context, j Job) {
	u.mu.Lock()
	id := u.jobs[j.Event]
	u.mu.Unlock()
	switch {
	case j.Op == jobSubmit:
		u.submit(ctx, j)
	case id == "":
	case j.Op == jobCancel:
		u.look(j.String(), u.cancel(ctx, u.api(), j.Event, id))
	case j.Op == jobReplay:
		u.replays(j.Event)
		_, err := u.api().ReplayJob(ctx, id)
		u.look(j.String(), err)
	case j.Op == jobVanished:
		_, err := u.api().ResolveJob(ctx, id, string(record.JobVanished))
		u.look(j.String(), err)
	case j.Op == jobThere:
		_, err := u.api().ResolveJob(ctx, id, string(record.JobSubmitted))
		u.look(j.String(), err)
	}
}

// cancel cancels the job of an event.
func (u *users) cancel(ctx context.Context, api *client.Client, event int, id string) error {
	began := time.Now()
	_, err := api.CancelJob(ctx, id)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancelled[event] = append(u.cancelled[event], span{began, time.Now()})
	return err
}

func (u *users) submit(ctx context.Context, j Job) {
	for range jobTries {
		began := time.Now()
		sent, err := u.api().SubmitJob(ctx, jobService, []byte(event(j.Event)), client.JobOptions{IdempotencyKey: event(j.Event)})
		u.look(j.String(), err)
		u.mu.Lock()
		u.submitted[j.Event] = append(u.submitted[j.Event], span{began, time.Now()})
		u.mu.Unlock()
		if err == nil {
			u.accepted(j.Event, sent.ID)
			return
		}
		select {
		case <-time.After(jobPause):
		case <-ctx.Done():
			return
		}
	}
}

// accepted keeps the job of an event. There is one, however often it was submitted, for as long as its
// idempotency key is kept.
func (u *users) accepted(event int, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch was := u.jobs[event]; {
	case was == "" || was == id || u.lost(u.submitted[event]):
	case time.Since(u.submitted[event][0].from) > u.keepsRequest:
		u.replayed[event]++
	default:
		u.strange = append(u.strange, fmt.Sprintf("event %d was accepted as %s and as %s", event, was, id))
	}
	u.jobs[event] = id
}
