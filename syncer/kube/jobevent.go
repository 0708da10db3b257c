package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobReader tells of OSCAR's Jobs.
type JobReader interface {
	// JobEvent is the event of a Job in the namespace of an owner's services.
	JobEvent(ctx context.Context, owner, name string) (string, error)
}

// JobEvent implements JobReader.
func (Absent) JobEvent(context.Context, string, string) (string, error) { return "", ErrAbsent }

// JobEvent implements JobReader.
func (c *Client) JobEvent(ctx context.Context, owner, name string) (string, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	namespace := Namespace(c.cfg.Services, owner)
	what := fmt.Sprintf("Job %s/%s", namespace, name)
	job, err := c.kube.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", failed(what, err)
	}
	event, ok := eventOf(&job.Spec.Template.Spec)
	if !ok {
		return "", fmt.Errorf("kubernetes: %s has no event", what)
	}
	return event, nil
}
