package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// source lists the Jobs of a service, all or an error: what was made before the call is
// among them, unless it was deleted.
type source interface {
	Jobs(ctx context.Context, service string) (map[string]listedJob, error)
}

// listedJob is a Job as it is listed, and what Kubernetes tells of its pod.
type listedJob struct {
	manager.Job
	pod kube.PodState
}

// anySource lists in Kubernetes where there is one, and through OSCAR where there is none.
// OSCAR asks Kubernetes once for each Job, five times a second, and looks at pods only: a
// Job that has lost its pod has not ended for it.
type anySource struct {
	kube  kubeSource
	oscar *oscarSource
	// denied is told, once, when the syncer may not list in its Kubernetes.
	denied func(error)
}

func newSource(log *slog.Logger, k kube.JobLister, o Pages) *anySource {
	s := &anySource{kube: kubeSource{k}, oscar: &oscarSource{oscar: o, slot: make(chan struct{}, 1)}}
	var once sync.Once
	s.denied = func(err error) {
		once.Do(func() {
			log.Warn("the syncer may not list Jobs in Kubernetes; OSCAR is asked, which takes long", "error", err)
		})
	}
	return s
}

// Jobs implements source.
func (s *anySource) Jobs(ctx context.Context, service string) (map[string]listedJob, error) {
	jobs, err := s.kube.Jobs(ctx, service)
	switch {
	case errors.Is(err, kube.ErrAbsent):
	case errors.Is(err, kube.ErrDenied):
		s.denied(err)
	default:
		return jobs, err
	}
	return s.oscar.Jobs(ctx, service)
}

// kubeSource asks Kubernetes.
type kubeSource struct{ kube kube.JobLister }

// Jobs implements source. Its error is kube.ErrNoService for a service that is not there.
func (k kubeSource) Jobs(ctx context.Context, service string) (map[string]listedJob, error) {
	found, err := k.kube.Jobs(ctx, service)
	if err != nil {
		return nil, err
	}
	jobs := make(map[string]listedJob, len(found))
	for name, j := range found {
		jobs[name] = listedJob{manager.Job{Status: statusWord(j.Phase), Started: j.Started, Finished: j.Finished}, j.Pod}
	}
	return jobs, nil
}

// statusWord is OSCAR's word for a phase.
func statusWord(p kube.JobPhase) string {
	switch p {
	case kube.JobSucceeded:
		return "Succeeded"
	case kube.JobFailed:
		return "Failed"
	case kube.JobRunning:
		return "Running"
	case kube.JobPending:
		return "Pending"
	case kube.JobSuspended:
		return "Suspended"
	}
	return "Unknown"
}

// Pages is the list of OSCAR.
type Pages interface {
	Jobs(ctx context.Context, service, page string) (manager.JobPage, error)
}

// oscarSource asks OSCAR, for one page at a time: while OSCAR makes one, the answers to
// everybody else wait behind it.
type oscarSource struct {
	oscar Pages
	slot  chan struct{}
}

// Jobs implements source. Its error is a 404 for a service that OSCAR cannot read.
func (o *oscarSource) Jobs(ctx context.Context, service string) (map[string]listedJob, error) {
	all, next := map[string]listedJob{}, ""
	for range maxJobPages {
		page, err := o.page(ctx, service, next)
		if err != nil {
			return nil, err
		}
		for name, job := range page.Jobs {
			all[name] = listedJob{Job: job}
		}
		if next = page.Next; next == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("OSCAR's list of the jobs of service %q has more than %d pages", service, maxJobPages)
}

// page asks for one page when no other goroutine does, and then leaves OSCAR to others for a while.
func (o *oscarSource) page(ctx context.Context, service, name string) (manager.JobPage, error) {
	select {
	case o.slot <- struct{}{}:
		defer func() { <-o.slot }()
	case <-ctx.Done():
		return manager.JobPage{}, context.Cause(ctx)
	}
	began := time.Now()
	page, err := o.oscar.Jobs(ctx, service, name)
	rest := time.NewTimer(time.Since(began) / pageRest)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
	return page, err
}

const (
	// pageRest is the part of the time that a page took which is left to others after it.
	// It is small: a list that takes more than 5 minutes is cut off by Kubernetes.
	pageRest = 4
	// maxJobPages bounds how far is read on; a page has 70 jobs.
	maxJobPages = 2000
)

// maxListTime ends a list of many pages.
const maxListTime = 10 * time.Minute

// Lister lists the Jobs of services of this OSCAR.
type Lister struct {
	session *session.Session
	answers *answers.Answers
	source  source
}

// NewLister starts nothing.
func NewLister(now *session.Session, a *answers.Answers, k kube.JobLister, o Pages) *Lister {
	return &Lister{session: now, answers: a, source: newSource(now.Log, k, o)}
}

// of lists the Jobs of a service. Those of a service that is not there are none; of one
// that is half-created OSCAR cannot say, and the error is errHalf.
func (l *Lister) of(ctx context.Context, service string) (map[string]listedJob, error) {
	ctx, cancel := context.WithTimeout(ctx, maxListTime)
	defer cancel()
	began := l.session.Now()
	jobs, err := l.source.Jobs(ctx, service)
	half, elsewhere := manager.NotFound(err), errors.Is(err, kube.ErrNoService)
	if !half && !elsewhere {
		return jobs, err
	}
	list, _, listErr := l.answers.Lists.Get(ctx, began)
	switch {
	case listErr != nil:
		return nil, listErr
	case list.Services[service] == nil:
		return map[string]listedJob{}, nil
	case elsewhere:
		// Its Jobs are not taken for gone.
		return nil, fmt.Errorf("OSCAR has the service, and Kubernetes has not; is it the Kubernetes of this OSCAR? %w", err)
	}
	return nil, fmt.Errorf("%w: %w", errHalf, err)
}

// errHalf says that OSCAR lists a service and cannot read it.
var errHalf = errors.New("the service is half-created, and OSCAR cannot list its jobs")
