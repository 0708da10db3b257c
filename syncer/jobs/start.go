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
func (j *Jobs) hold(ctx context.Context, a *attempt) {
	job, err := j.startable(ctx, a)
	for i := range podsOf(job) {
		p := job.Pods[i]
		if err == nil && !p.Ended && !p.Deleting && !p.Held {
			err = j.deps.Kube.HoldStuckPod(ctx, job, p)
		}
	}
	j.mu.Lock()
	again := a.memory.holds > 0
	j.mu.Unlock()
	j.logPodStep(a, "hold", again, err)
	j.finished(a, func(m *memory) {
		m.holds++
		m.lastHold = j.session.Now()
	})
}

// remove deletes the Job of an attempt whose pod is held.
func (j *Jobs) remove(ctx context.Context, a *attempt) {
	job, err := j.startable(ctx, a)
	pods := podsOf(job)
	if err == nil && (len(pods) == 0 || slices.ContainsFunc(pods, func(p kube.JobPod) bool { return !p.Held })) {
		err = kube.ErrJobChanged // its next list says how it stands
	}
	if err == nil {
		err = j.deps.Kube.DeleteJob(ctx, job)
	}
	j.mu.Lock()
	j.slots.deleting--
	again := a.memory.deletes > 0
	j.mu.Unlock()
	j.logPodStep(a, "delete", again, err)
	j.finished(a, func(m *memory) {
		m.deletes++
		m.lastDelete = j.session.Now()
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
func (j *Jobs) startable(ctx context.Context, a *attempt) (*kube.Job, error) {
	assignment, revision, err := j.asked(a)
	if err != nil {
		return nil, err
	}
	until := j.session.ReadIsGoodUntil()
	if err := j.verify(ctx, a, "", revision); err != nil {
		return nil, err
	}
	desired := j.session.Desired(a.service)
	if desired == nil || desired.UID != assignment.UID {
		return nil, errNotOurs
	}
	job, err := j.deps.Kube.Job(ctx, kube.JobKey{Namespace: j.deps.Kube.ServiceNamespace(desired.Owner), Name: assignment.Name})
	switch {
	case err != nil:
		return nil, err
	case job.Service != a.service || job.Ended || job.Deleting || job.Unusual != "" || job.Mark.Holding():
		return nil, errNotStuck
	}
	return job, j.session.Writable(until)
}

// logPodStep logs what was done; what fails again is no news.
func (j *Jobs) logPodStep(a *attempt, step string, again bool, err error) {
	level := slog.LevelInfo
	switch {
	case err != nil && again:
		level = slog.LevelDebug
	case err != nil:
		level = slog.LevelWarn
	}
	j.session.Log.Log(context.Background(), level, "a job whose pod cannot start", "step", step, "job", a.job, "attempt", a.number, "service", a.service, "error", err)
}

// scrubPods takes the secrets of a service out of what its pods tell. Without its definition
// they are not known, and no sentence is told.
func (j *Jobs) scrubPods(ctx context.Context, service string, jobs map[string]listedJob) {
	var secrets []string
	read, known := false, false
	for name, job := range jobs {
		if job.pod.Message == "" {
			continue
		}
		if !read {
			read = true
			secrets, known = j.secretsOf(ctx, service)
		}
		if job.pod.Message = manager.Scrub(job.pod.Message, secrets...); !known {
			job.pod.Message = ""
		}
		jobs[name] = job
	}
}

// secretsOf are what no report about a service may hold; false when they are not known.
func (j *Jobs) secretsOf(ctx context.Context, service string) ([]string, bool) {
	desired := j.session.Desired(service)
	if desired == nil {
		return nil, false
	}
	def, err := j.deps.Definitions.Open(ctx, service, desired)
	if err != nil || def == nil {
		return nil, false
	}
	return append([]string{def.Service.Token}, def.Secrets...), true
}
