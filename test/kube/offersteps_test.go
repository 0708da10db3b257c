package kube_test

import (
	"context"
	"errors"

	"github.com/oscarfed/oscarfed/syncer/kube"
)

// hooked is a Kubernetes whose changes are counted, and surrounded by what the test does.
type hooked struct {
	kube.Interface
	h *history
}

var errKilled = errors.New("this syncer is dead")

func (k hooked) step(do func() error) error {
	h := k.h
	h.mu.Lock()
	n := h.steps
	h.steps++
	h.mu.Unlock()
	for _, after := range []bool{false, true} {
		h.at(n, after)
		h.mu.Lock()
		dead := h.stop == nil
		h.mu.Unlock()
		if dead {
			return errKilled
		}
		if !after {
			if err := do(); err != nil {
				h.mu.Lock()
				h.refused++ // somebody else wrote in between; it is taken again
				h.mu.Unlock()
				return err
			}
		}
	}
	return nil
}

func (k hooked) WatchJobs(ctx context.Context, seen func(kube.JobKey, *kube.Job)) error {
	k.h.mu.Lock()
	fails := k.h.unwatched > 0
	k.h.unwatched--
	k.h.mu.Unlock()
	if fails {
		return errors.New("too many requests")
	}
	return k.Interface.WatchJobs(ctx, seen)
}

func (k hooked) ChangeJob(ctx context.Context, job *kube.Job, change kube.JobChange) error {
	return k.step(func() error { return k.Interface.ChangeJob(ctx, job, change) })
}

func (k hooked) HoldPod(ctx context.Context, job *kube.Job, pod kube.JobPod) error {
	return k.step(func() error { return k.Interface.HoldPod(ctx, job, pod) })
}

func (k hooked) SetActive(ctx context.Context, job *kube.Job, active bool) error {
	return k.step(func() error { return k.Interface.SetActive(ctx, job, active) })
}

func (k hooked) DeleteJob(ctx context.Context, job *kube.Job) error {
	return k.step(func() error { return k.Interface.DeleteJob(ctx, job) })
}
