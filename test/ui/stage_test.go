package ui_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// stage stands before a control plane and answers browsers with what was made up: numbers of
// members and jobs, and speeds, that would cost a world minutes. The page itself, logging in, and
// all that is not made up come from the control plane.
type stage struct {
	mu          sync.Mutex
	clusters    []*v1.Cluster
	federations []*v1.Federation
	events      []*v1.SystemEvent
	jobs        []v1.Job
	audit       []v1.AuditEntry
	revision    int64
	streams     map[*scene]bool
	// subject is who does things, and named ends the names of buckets and objects.
	subject, named string
}

// scene is one stream: what is told to it after the first state.
type scene struct {
	kinds []string
	told  chan []byte
	gone  <-chan struct{}
}

// longName is as long as names may be, and has no place to break at.
const longName = "a-service-whose-name-is-as-long-as-any-name-may-be-at-all-0000"

// newStage makes so many clusters, federations, members of the first federation, events and
// entries of the audit, and so many jobs.
func newStage(things, jobs int) *stage {
	s := &stage{streams: map[*scene]bool{}, revision: 1, subject: "62bb11b4c9a1f0e2d7@science.example"}
	now := time.Now()
	ago := func(i int) v1.Time {
		return v1.Time{Time: now.Add(-time.Duration(i) * time.Minute).UTC().Truncate(time.Millisecond)}
	}
	phases := []string{v1.PhaseReady, v1.PhaseReady, v1.PhaseReady, v1.PhaseDrifted, v1.PhaseReady, v1.PhaseApplying, v1.PhaseFailed, v1.PhaseHeld}
	for i := range things {
		c := &v1.Cluster{
			V: 1, ClusterID: fmt.Sprintf("oscar-cluster-%03d", i), UID: fmt.Sprintf("c%03d", i), Endpoint: "https://oscar.example", SSLVerify: true,
			Labels: map[string]string{"site": fmt.Sprint("site-", i%7), "tier": "edge"}, State: "active", AllowedGroups: []string{}, Alive: i%9 != 4, OscarVersion: "v4.1.2", RegisteredAt: ago(i),
		}
		if !c.Alive {
			c.LastSeen = new(ago(i))
		}
		s.clusters = append(s.clusters, c)
	}
	for i := range things {
		name := fmt.Sprintf("service-%03d", i)
		if i == 1 {
			name = longName
		}
		f := &v1.Federation{
			UID: fmt.Sprintf("f%03d", i), GroupID: name, Topology: "star", Delegation: "static", Deployment: "transactional", Generation: 1, Revision: 1,
			Phase: v1.PhaseReady, Coordinator: v1.Address{ClusterID: s.clusters[i].ClusterID, ServiceName: name}, Owner: "cluster_admin",
			CreatedAt: ago(i), ChangedAt: ago(i), Drift: "repair", Edges: [][2]string{},
		}
		members := min(4, things)
		if i == 0 {
			members = things
		}
		for k := range members {
			r := v1.Replica{Type: "oscar", ClusterID: s.clusters[(i+k)%things].ClusterID, ServiceName: name, Status: &v1.Status{
				Phase: phases[(i+k)%len(phases)], ObservedGeneration: 1, LastTransitionTime: ago(i + k),
			}}
			if r.Status.Phase != v1.PhaseReady {
				f.Phase = v1.PhaseDegraded
				r.Status.Reason, r.Status.Message, r.Status.Hint = "CreateFailed", "the OSCAR Manager answered 500 Internal Server Error: no kubernetes node has room for it", "look at its log"
			}
			f.Replicas = append(f.Replicas, r)
			if k > 0 {
				f.Edges = append(f.Edges, [2]string{addressOf(f.Replicas[0]), addressOf(r)})
			}
		}
		s.federations = append(s.federations, f)
	}
	for i := range things {
		s.events = append(s.events, s.event(i))
		s.audit = append(s.audit, v1.AuditEntry{
			ID: fmt.Sprintf("%05d", things-i), At: ago(i), By: []string{s.subject, "cluster_admin", ""}[i%3], Action: "set_cluster_state",
			Outcome: []string{"done", "accepted", "refused", "rolled_back"}[i%4], Federation: fmt.Sprintf("f%03d", i), GroupID: fmt.Sprintf("service-%03d", i), Detail: strings.Repeat("a sentence that is rather long, ", i%4),
		})
	}
	if things > 0 {
		for i := range jobs {
			s.jobs = append(s.jobs, s.job(i))
		}
		slices.Reverse(s.jobs)
	}
	return s
}

func addressOf(r v1.Replica) string { return r.ClusterID + "/" + r.ServiceName }

// event makes up what happened to a cluster.
func (s *stage) event(i int) *v1.SystemEvent {
	return &v1.SystemEvent{
		ID: fmt.Sprintf("%08d.0", i), Revision: int64(i), At: v1.Time{Time: time.Now().UTC()}, Kind: v1.AboutCluster, Severity: []string{"normal", v1.SeverityWarning}[i%2],
		Reason: "ClusterAway", Message: "the syncer of the cluster is not connected any more", ClusterID: s.clusters[i%len(s.clusters)].ClusterID,
	}
}

// job makes up a job of the first federation that is handed over.
func (s *stage) job(i int) v1.Job {
	f := s.federations[0]
	to := f.Replicas[i%len(f.Replicas)]
	at := v1.Time{Time: time.Now().Add(time.Duration(i) * time.Millisecond).UTC().Truncate(time.Millisecond)}
	return v1.Job{
		ID: fmt.Sprintf("0199d0a1-7c00-7000-8000-%012d", i), Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner, ClusterID: f.Coordinator.ClusterID, ServiceName: f.Coordinator.ServiceName,
		Size: 20, State: []string{"running", "succeeded", "failed", "uncertain"}[i%4], Attempt: 1, Attempts: []v1.JobAttempt{}, AcceptedAt: at, ChangedAt: at,
		Place: &v1.JobPlace{ClusterID: to.ClusterID, ServiceName: to.ServiceName},
	}
}

// triedID is the id of a job that was tried at every member.
const triedID = "0199d0a1-7c00-7000-8000-000000000000"

func (s *stage) tried() v1.Job {
	j := s.job(0)
	j.Owner, j.Reason, j.Message = s.subject, "TooManyAttempts", "no member took it"
	j.State, j.Attempt = "parked", len(s.clusters)
	for i, r := range s.federations[0].Replicas {
		j.Attempts = append(j.Attempts, v1.JobAttempt{
			Attempt: i + 1, Place: addressOf(r), State: "refused", Reason: "OscarRefused", Status: 500, Message: strings.Repeat("no kubernetes node has room for it, ", 1+i%3), EndedAt: j.AcceptedAt,
		})
	}
	return j
}

func (s *stage) decision() v1.JobDecision {
	d := v1.JobDecision{Attempt: 1, At: s.job(0).AcceptedAt, Policy: "load-based", Snapshot: json.RawMessage("{}"), Order: []string{}}
	for i, r := range s.federations[0].Replicas {
		score := float64(i)
		d.Members = append(d.Members, v1.JobVerdict{Place: addressOf(r), Why: "score", Message: "load-based: score with cpu 3500m free", Score: &score})
	}
	return d
}

// follow tells how the job stands, and nothing more until the browser goes.
func (s *stage) follow(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	data, err := json.Marshal(s.tried())
	if err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintf(w, "event: job\ndata: %s\n\n", data); err == nil && rc.Flush() == nil {
		<-r.Context().Done()
	}
}

func (s *stage) usage() v1.Usage {
	u := v1.Usage{BudgetBytes: 64 << 20, Accounts: []v1.AccountUsage{}}
	for i := range s.clusters {
		left := int64(64-i%64) << 20
		u.Accounts = append(u.Accounts, v1.AccountUsage{Subject: fmt.Sprint(s.subject, i), UsedBytes: int64(i%64) << 20, LeftBytes: &left, JobBytes: int64(i) << 10})
	}
	return u
}

func (s *stage) generations() []v1.Generation {
	out := []v1.Generation{}
	for i := len(s.clusters); i > 0; i-- {
		out = append(out, v1.Generation{
			Generation: int64(i), By: s.subject, RequestID: "r", ChangedAt: s.federations[0].CreatedAt,
			Service: fmt.Appendf(nil, `{"name":"service-000","image":"ghcr.io/grycap/imagemagick:%d","script":"#!/bin/sh\n"}`, i),
		})
	}
	return out
}

func (s *stage) buckets() []v1.Bucket {
	out := []v1.Bucket{}
	for i, c := range s.clusters {
		name := fmt.Sprintf("bucket-%03d", i)
		if i > 0 { // the first one is visited
			name += s.named
		}
		out = append(out, v1.Bucket{Name: name, Visibility: "private", AllowedUsers: []string{}, Owner: s.subject, ClusterID: c.ClusterID})
	}
	return out
}

func (s *stage) bucket() v1.Bucket {
	b := s.buckets()[0]
	for i := range s.clusters {
		b.Objects = append(b.Objects, v1.BucketObject{Name: strings.Repeat("a-folder-with-a-name/", i%4) + fmt.Sprintf("object-%03d.jpg", i) + s.named, SizeBytes: int64(i) << 20})
	}
	return b
}

func (s *stage) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "Mozilla") || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		q := r.URL.Query()
		limit := cmp.Or(number(q.Get("limit")), 100)
		answer := func(v any) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the browser may be gone
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		switch r.URL.Path {
		case "/system/watch":
			s.mu.Unlock()
			s.play(w, r, q["kind"])
			s.mu.Lock()
		case "/system/jobs":
			from := number(q.Get("cursor"))
			end := min(from+limit, len(s.jobs))
			page := v1.Jobs{Jobs: append([]v1.Job{}, s.jobs[min(from, end):end]...)}
			if end < len(s.jobs) {
				page.Next = strconv.Itoa(end)
			}
			if q.Get("counts") != "" {
				page.Counts = map[string]int{}
				for i := range s.jobs {
					page.Counts[s.jobs[i].State]++
				}
			}
			answer(page)
		case "/system/stats":
			stats := v1.Stats{Jobs: map[string]int{}, Clusters: []v1.ClusterJobs{}, Edges: []v1.JobEdge{}}
			if len(s.federations) > 0 && q.Get("federation") == s.federations[0].UID {
				for i, e := range s.federations[0].Edges {
					stats.Edges = append(stats.Edges, v1.JobEdge{From: e[0], To: e[1], Jobs: i * i})
				}
			}
			answer(stats)
		case "/system/status":
			status := v1.SystemStatus{Clusters: []v1.ClusterStatus{}}
			for i, c := range s.clusters {
				status.Clusters = append(status.Clusters, v1.ClusterStatus{
					ClusterID: c.ClusterID, State: c.State, Alive: c.Alive, Fresh: c.Alive, Source: "oscar", Nodes: int64(i % 5),
					CPU:    v1.RoomCPU{Allocatable: 64000, Free: int64(i%64) * 1000, MaxFree: 4000, Promised: 500},
					Memory: v1.RoomMemory{Allocatable: 256 << 30, Free: int64(i%256) << 30, MaxFree: 8 << 30},
				})
			}
			answer(status)
		case "/system/audit":
			from := number(q.Get("continue"))
			end := min(from+limit, len(s.audit))
			if end < len(s.audit) {
				w.Header().Set("Oscarfed-Continue", strconv.Itoa(end))
			}
			answer(append([]v1.AuditEntry{}, s.audit[min(from, end):end]...))
		case "/system/buckets":
			answer(s.buckets())
		case "/system/buckets/bucket-000":
			answer(s.bucket())
		case "/system/jobs/" + triedID:
			s.mu.Unlock()
			s.follow(w, r)
			s.mu.Lock()
		case "/system/jobs/" + triedID + "/explain":
			answer(v1.JobExplanation{Job: s.tried(), Decisions: []v1.JobDecision{s.decision()}})
		case "/system/usage":
			answer(s.usage())
		case "/system/replicas/service-000/history":
			answer(s.generations())
		default:
			s.mu.Unlock()
			next.ServeHTTP(w, r)
			s.mu.Lock()
		}
	})
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// play tells the first state, and then what tell is given, until the browser goes.
func (s *stage) play(w http.ResponseWriter, r *http.Request, kinds []string) {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	me := &scene{kinds: kinds, told: make(chan []byte, 1024), gone: r.Context().Done()}
	s.mu.Lock()
	var first []byte
	for _, c := range s.clusters {
		first = append(first, me.change(&v1.Event{Kind: v1.EventCluster, Name: c.ClusterID, Cluster: c})...)
	}
	for _, f := range s.federations {
		first = append(first, me.change(&v1.Event{Kind: v1.EventFederation, Name: f.UID, Federation: f})...)
	}
	for _, e := range s.events {
		first = append(first, me.change(&v1.Event{Kind: v1.EventHappened, Name: e.ID, Event: e})...)
	}
	s.streams[me] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, me)
	}()
	for data := append(first, bookmark(1)...); ; {
		if _, err := w.Write(data); err != nil || rc.Flush() != nil {
			return
		}
		select {
		case data = <-me.told:
		case <-me.gone:
			return
		}
	}
}

func bookmark(revision int64) []byte {
	return fmt.Appendf(nil, "event: bookmark\nid: %d\ndata: {\"revision\":%d,\"epoch\":\"1\"}\n\n", revision, revision)
}

// change is an event as the stream has it; nil for a kind that it does not have.
func (m *scene) change(e *v1.Event) []byte {
	if !slices.Contains(m.kinds, e.Kind) {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, "event: change\ndata: %s\n\n", data)
}

// tell tells changes to all streams, and waits until they are on their way: nobody is told more
// than he reads.
func (s *stage) tell(changes ...*v1.Event) {
	s.mu.Lock()
	s.revision++
	mark, streams := bookmark(s.revision), slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for _, m := range streams {
		var data []byte
		for _, e := range changes {
			data = append(data, m.change(e)...)
		}
		if data == nil {
			continue
		}
		select {
		case m.told <- append(data, mark...):
		case <-m.gone:
		}
	}
}

// everySecond gives what one second of a busy federation tells: a member changes, something
// happens, and a job comes in and is handed over.
func (s *stage) everySecond(i int) []*v1.Event {
	f := *s.federations[0]
	f.Replicas = slices.Clone(f.Replicas)
	status := *f.Replicas[i%len(f.Replicas)].Status
	status.Phase = []string{v1.PhaseReady, v1.PhaseDrifted}[i/len(f.Replicas)%2]
	f.Replicas[i%len(f.Replicas)].Status = &status
	f.Generation = int64(i + 2)
	job := s.job(1_000_000 + i)
	event := s.event(1_000_000 + i)
	return []*v1.Event{
		{Kind: v1.EventFederation, Name: f.UID, Federation: &f},
		{Kind: v1.EventHappened, Name: event.ID, Event: event},
		{Kind: v1.EventJob, Name: job.ID, Job: &job},
	}
}
