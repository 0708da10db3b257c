package jobs

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// hold has the pod of an attempt not start any more; what came of it a list tells.
func (d *Jobs) hold(ctx context.Context, a *attempt) {
	job, err := d.startable(ctx, a)
	for i := range podsOf(job) {
		p := job.Pods[i]
		if err == nil && !p.Ended && !p.Leaving && !p.Held {
			err = d.deps.Kube.HoldStuckPod(ctx, job, p)
		}
	}
	d.mu.Lock()
	again := !a.memory.lastHold.IsZero()
	d.mu.Unlock()
	d.told(a, "hold", again, err)
	d.finished(a, func(m *memory) { m.lastHold = d.session.Now() })
}

// remove deletes the Job of an attempt whose pod is held.
func (d *Jobs) remove(ctx context.Context, a *attempt) {
	job, err := d.startable(ctx, a)
	pods := podsOf(job)
	if err == nil && (len(pods) == 0 || slices.ContainsFunc(pods, func(p kube.JobPod) bool { return !p.Held })) {
		err = kube.ErrJobChanged // its next list says how it stands
	}
	if err == nil {
		err = d.deps.Kube.DeleteJob(ctx, job)
	}
	d.mu.Lock()
	d.slots.deleting--
	again := a.memory.deletes > 0
	d.mu.Unlock()
	d.told(a, "delete", again, err)
	d.finished(a, func(m *memory) {
		m.deletes++
		m.lastDelete = d.session.Now()
	})
}

func podsOf(job *kube.Job) []kube.JobPod {
	if job == nil {
		return nil
	}
	return job.Pods
}

var errNotStuck = errors.New("it is no Job of OSCAR's that waits for its pod")

// startable reads the Job of an attempt, and that it is still ours to change.
func (d *Jobs) startable(ctx context.Context, a *attempt) (*kube.Job, error) {
	d.mu.Lock()
	assignment, revision := *a.assignment, a.revision
	d.mu.Unlock()
	until := d.session.Now().Add(d.session.TTL / 3)
	if err := d.verify(ctx, a, "", revision); err != nil {
		return nil, err
	}
	desired := d.session.Desired(a.service)
	if desired == nil || desired.UID != assignment.UID {
		return nil, errNotOurs
	}
	job, err := d.deps.Kube.Job(ctx, kube.JobKey{Namespace: d.deps.Kube.Place(desired.Owner), Name: assignment.Name})
	switch {
	case err != nil:
		return nil, err
	case job.Service != a.service || job.Ended || job.Leaving || job.Odd != "" || job.Mark.Holding():
		return nil, errNotStuck
	}
	return job, d.writable(until)
}

// told logs what was done; what fails again is no news.
func (d *Jobs) told(a *attempt, step string, again bool, err error) {
	level := slog.LevelInfo
	switch {
	case err != nil && again:
		level = slog.LevelDebug
	case err != nil:
		level = slog.LevelWarn
	}
	d.session.Log.Log(context.Background(), level, "a job whose pod cannot start", "step", step, "job", a.job, "attempt", a.number, "service", a.service, "error", err)
}

// scrubPods takes the secrets of a service out of what its pods tell. Without its definition
// they are not known, and no sentence is told.
func (d *Jobs) scrubPods(ctx context.Context, service string, jobs map[string]listedJob) {
	var secrets []string
	read, known := false, false
	for name, job := range jobs {
		if job.pod.Message == "" {
			continue
		}
		if !read {
			read = true
			secrets, known = d.secretsOf(ctx, service)
		}
		if job.pod.Message = manager.Scrub(job.pod.Message, secrets...); !known {
			job.pod.Message = ""
		}
		jobs[name] = job
	}
}

// secretsOf are what no report about a service may hold; false when they are not known.
func (d *Jobs) secretsOf(ctx context.Context, service string) ([]string, bool) {
	desired := d.session.Desired(service)
	if desired == nil {
		return nil, false
	}
	def, err := d.deps.Definitions.Open(ctx, service, desired)
	if err != nil || def == nil {
		return nil, false
	}
	return append([]string{def.Service.Token}, def.Secrets...), true
}
