package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// pods is the Kubernetes of a simulated OSCAR whose nodes are full, as far as offers need
// it: no pod ever gets a node, so holding one is easy. What Kubernetes really does at
// each step is tried in test/kube.
type pods struct {
	kube.Absent
	ready chan struct{} // closed when sim is there

	mu   sync.Mutex
	sim  *oscarsim.Sim
	jobs map[string]*kube.Job // by name
	// at is called before and after each change; with an error the change is not made, or
	// its outcome is not known.
	at func(step string, after bool) error
	// resumes allows that a Job is given back: it runs then.
	resumes bool
}

// look reads the Jobs of the service. The caller holds the lock.
func (p *pods) look(service string) {
	view, _ := p.sim.Service(service)
	there := map[string]bool{}
	for _, j := range p.sim.Jobs(service) {
		there[j.Name] = true
		if p.jobs[j.Name] == nil {
			p.jobs[j.Name] = &kube.Job{
				JobKey: kube.JobKey{Namespace: j.Namespace, Name: j.Name}, UID: uuid.NewString(), Version: "1", Generation: 1,
				Service: service, ServiceUID: view.Annotations[oscar.AnnotationUID], Created: j.Created, Event: j.Event,
				Pods: []kube.JobPod{{Name: j.Name + "-pod", Created: j.Created}},
			}
		}
	}
	for name := range p.jobs {
		if !there[name] {
			delete(p.jobs, name)
		}
	}
}

// uid is what Kubernetes calls the Job of an event; empty when there is none.
func (p *pods) uid(event string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look(names[0])
	for _, j := range p.jobs {
		if j.Event == event {
			return j.UID
		}
	}
	return ""
}

func (p *pods) WatchJobs(ctx context.Context, seen func(kube.JobKey, *kube.Job)) error {
	known := map[kube.JobKey]string{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ready:
		}
		p.mu.Lock()
		p.look(names[0])
		now := map[kube.JobKey]*kube.Job{}
		for _, j := range p.jobs {
			c := *j
			now[j.JobKey] = &c
		}
		p.mu.Unlock()
		for key, j := range now {
			if known[key] != j.Version {
				known[key] = j.Version
				seen(key, j)
			}
		}
		for key := range known {
			if now[key] == nil {
				delete(known, key)
				seen(key, nil)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *pods) Job(_ context.Context, key kube.JobKey) (*kube.Job, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look(names[0])
	j := p.jobs[key.Name]
	if j == nil {
		return nil, kube.ErrNoJob
	}
	c := *j
	c.Pods = append([]kube.JobPod(nil), j.Pods...)
	return &c, nil
}

// change makes one change to the version that was read.
func (p *pods) change(step string, job *kube.Job, do func(j *kube.Job) error) error {
	if err := p.at(step, false); err != nil {
		return err
	}
	if err := p.changeNow(job, do); err != nil {
		return err
	}
	return p.at(step, true)
}

func (p *pods) changeNow(job *kube.Job, do func(j *kube.Job) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look(names[0])
	j := p.jobs[job.Name]
	if j == nil || j.Version != job.Version {
		return kube.ErrJobChanged
	}
	version, err := strconv.Atoi(j.Version)
	if err != nil {
		return err
	}
	j.Version = strconv.Itoa(version + 1)
	return do(j)
}

func (p *pods) ChangeJob(_ context.Context, job *kube.Job, change kube.JobChange) error {
	step := "mark"
	if change.Suspend != nil {
		step = "suspend"
	}
	return p.change(step, job, func(j *kube.Job) error {
		if change.Mark != nil {
			mark := *change.Mark
			mark.UID = j.UID
			j.Mark = &mark
		}
		if change.Suspend == nil || *change.Suspend == j.Suspended {
			return nil
		}
		if !*change.Suspend {
			if !p.resumes {
				return errors.New("nobody is to give this Job back")
			}
			j.Suspended = false
			j.Generation++
			return p.sim.SetJobStatus(names[0], j.Name, oscarsim.JobRunning)
		}
		// The Job controller deletes its pod at once.
		j.Suspended, j.Settled, j.Pods = true, true, nil
		j.Generation++
		return p.sim.SetJobStatus(names[0], j.Name, oscarsim.JobSuspended)
	})
}

func (p *pods) HoldPod(_ context.Context, job *kube.Job, pod kube.JobPod) error {
	return p.change("hold", job, func(j *kube.Job) error {
		for i := range j.Pods {
			j.Pods[i].Held = j.Pods[i].Held || j.Pods[i].Name == pod.Name
		}
		return nil
	})
}

func (p *pods) DeleteJob(_ context.Context, job *kube.Job) error {
	return p.change("delete", job, func(j *kube.Job) error { return p.sim.DeleteJob(names[0], j.Name) })
}

func (p *pods) ServiceNamespace(owner string) string { return kube.Namespace("oscar-svc", owner) }

// offeringAt has the syncer of a offer the Jobs of p that wait.
func offeringAt(p *pods) func(*world.Options) {
	return func(o *world.Options) {
		before := o.Syncer
		o.Syncer = func(cfg *syncer.Config) {
			before(cfg)
			if cfg.ClusterID == a {
				cfg.Kube, cfg.RescheduleAfter, cfg.SessionTTL = p, 50*time.Millisecond, 2*time.Second
			}
		}
	}
}

// TestAJobThatWaitsAtAMemberRunsAtAnother: its syncer offers it, the control plane finds
// a place, the other member runs it, and it is gone where it came in. The syncer is
// killed in the middle, each time at another step.
func TestAJobThatWaitsAtAMemberRunsAtAnother(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		p := &pods{ready: make(chan struct{}), jobs: map[string]*kube.Job{}}
		var w *world.World
		var mu sync.Mutex
		var next string // where it is to die
		p.at = func(step string, after bool) error {
			mu.Lock()
			defer mu.Unlock()
			if next != fmt.Sprintf("%s %t", step, after) {
				return nil
			}
			next = ""
			w.Cluster(a).Kill()
			return errors.New("killed")
		}
		alive := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return next != ""
		}
		w = newJobWorld(t, offeringAt(p))
		p.sim = w.Cluster(a).Sim
		close(p.ready)
		service, _ := p.sim.Service(names[0])
		for _, death := range []string{"", "mark true", "hold false", "suspend true", "delete false", "delete true"} {
			step(t, "killed at "+death, func(t *testing.T) {
				event := "event of " + death
				mu.Lock()
				next = death
				mu.Unlock()
				post(w, w.Cluster(a).URL+"/job/"+names[0], service.Token, event)
				id := p.uid(event)
				if id == "" {
					t.Fatal("a has no Job of it")
				}
				if death != "" {
					w.Eventually("the syncer is killed", func() bool { return !alive() })
					w.Cluster(a).Start()
				}
				job := w.AwaitJob(id, ended...)
				if job.State != record.JobSucceeded || !job.Offered || job.Place == nil || job.Place.ClusterID != b {
					t.Errorf("the job is %+v", job)
				}
				w.Eventually("it is gone where it came in", func() bool {
					return p.uid(event) == "" && len(w.Keys(record.OffersPrefix(a))) == 0 && len(w.Keys(record.OfferAnswersPrefix(a))) == 0
				})
				for id, want := range map[string]int{a: 1, b: 1, c: 0} { // at a it was made, and never had a node
					if n := w.Cluster(id).Sim.Starts().Events[event]; n != want {
						t.Errorf("%s made %d Jobs of it, want %d", id, n, want)
					}
				}
			})
		}
	})
}

// TestAJobThatIsHeldForALostOfferGoesOn: its syncer holds it, etcd goes back to a backup that knows nothing of it, and no
// other member has room any more.
func TestAJobThatIsHeldForALostOfferGoesOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		p := &pods{ready: make(chan struct{}), jobs: map[string]*kube.Job{}, resumes: true}
		var w *world.World
		held := make(chan struct{})
		p.at = func(step string, after bool) error {
			if step != "suspend" || !after {
				return nil
			}
			select {
			case <-held:
				return nil
			default:
			}
			close(held)
			w.Cluster(a).Kill()
			return errors.New("killed")
		}
		w = newJobWorld(t, offeringAt(p), func(o *world.Options) { o.Restorable = true })
		p.sim = w.Cluster(a).Sim
		close(p.ready)
		service, _ := p.sim.Service(names[0])
		backup := w.Backup()
		post(w, w.Cluster(a).URL+"/job/"+names[0], service.Token, "an event")
		<-held
		for _, id := range []string{b, c} {
			w.Cluster(id).Sim.SetNodes(oscarsim.Node{Name: "n", CPU: 1000, UsedCPU: 1000, RequestCPU: 1000, Memory: 1 << 30})
		}
		w.RestoreEtcd(backup, true)
		w.Cluster(a).Start()
		<-time.After(10 * time.Minute) // until every member has told of its Jobs
		w.Eventually("it runs where it came in", func() bool {
			jobs := p.sim.Jobs(names[0])
			return len(jobs) == 1 && jobs[0].Status == oscarsim.JobRunning
		})
		w.Eventually("nothing is left of the offer", func() bool {
			return len(w.Keys(record.OffersPrefix(a))) == 0 && len(w.Keys(record.OfferAnswersPrefix(a))) == 0
		})
		if n := w.Starts("an event"); n != 1 {
			t.Errorf("it was started %d times", n)
		}
	})
}

// post sends an event to an OSCAR, as MinIO does.
func post(w *world.World, url, token, event string) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(event))
	if err != nil {
		w.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := w.HTTP().Do(req)
	if err != nil {
		w.T.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		w.T.Fatalf("it was answered %s", resp.Status)
	}
}
