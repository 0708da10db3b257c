package oscarsim

import (
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// Kubernetes is a real cluster below an OSCAR, which then keeps services, Secrets and Jobs there, too, and whose Jobs
// go as their pods do. Every call ends by itself, and its error is answered in its own words. The rest of the OSCAR
// (MinIO, and which services there are) is in the process and ends with it, and what a test changes by hand is changed
// there alone.
type Kubernetes interface {
	// PutService makes or replaces the ConfigMap and the PodTemplate of a service.
	PutService(svc *wire.Service) error
	// DeleteService removes them. It is no error that they are not there; so with all that is deleted.
	DeleteService(namespace, name string) error
	PutSecret(namespace, name string, data map[string]string) error
	DeleteSecret(namespace, name string) error
	// CreateJob makes a Job; a name that is taken is refused.
	CreateJob(svc *wire.Service, name, event string) error
	DeleteJob(namespace, name string) error
	// Jobs are those of services in a namespace, whoever made them.
	Jobs(namespace string) ([]KubernetesJob, error)
	// Log is what the pod of a Job has written so far.
	Log(namespace, name string) (string, error)
}

// KubernetesJob is a Job as its cluster has it. Status is one of the states of a Job; times are zero until they come.
type KubernetesJob struct {
	Name, Service, Status, Event string
	Created, Started, Finished   time.Time
}

// observe brings Jobs up to now. What the cluster below does not tell stays as it was.
func (k *kube) observe(now time.Time) {
	k.load.advance(now)
	if k.below == nil {
		return
	}
	for namespace := range k.serviceNamespaces() {
		found, err := k.below.Jobs(namespace)
		if err != nil {
			continue
		}
		seen := map[key]bool{}
		for _, f := range found {
			id := key{namespace, f.Name}
			seen[id] = true
			if k.jobs[id] == nil {
				k.keepJob(&job{name: f.Name, namespace: namespace, service: f.Service, event: f.Event, created: f.Created})
			}
			j := k.jobs[id]
			j.status, j.started, j.finished = f.Status, f.Started, f.Finished
		}
		for id, j := range k.jobs {
			if id.namespace == namespace && !seen[id] {
				k.forgetJob(j)
			}
		}
	}
}

// serviceNamespaces are those with a service or a Job.
func (k *kube) serviceNamespaces() map[string]bool {
	namespaces := map[string]bool{}
	for id := range k.services {
		namespaces[id.namespace] = true
	}
	for id := range k.jobs {
		namespaces[id.namespace] = true
	}
	return namespaces
}

// output is what the pod of a Job has written.
func (k *kube) output(j *job) string {
	if k.below == nil {
		return j.output
	}
	text, err := k.below.Log(j.namespace, j.name)
	if err != nil {
		return err.Error()
	}
	return text
}
