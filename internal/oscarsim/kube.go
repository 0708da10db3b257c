package oscarsim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

const (
	// maxObject is the size over which etcd refuses a Kubernetes object, and objectFrame what a Job weighs besides its
	// event and annotations. Bytes; the frame is an estimate.
	maxObject   = 1536 << 10
	objectFrame = 4 << 10
)

// errMissing is Kubernetes' not found.
var errMissing = errors.New("not found")

// key names a Kubernetes object.
type key struct{ namespace, name string }

// kube is the Kubernetes side of an OSCAR. The Sim's lock guards it.
type kube struct {
	below      Kubernetes // nil for none
	knative    bool
	namespaces map[string]bool
	services   map[key]*entry
	secrets    map[key]map[string]string
	volumes    map[key]*volume
	jobs       map[key]*job
	index      map[key][]*job // by service
	load       workload
	starts     starts
	pullers    map[key]bool // DaemonSets that pull the image of a service on each node
}

// entry is a service as OSCAR keeps it: a ConfigMap with the definition, and a PodTemplate. Without the PodTemplate it
// is listed and cannot be read, changed or deleted.
type entry struct {
	service  *wire.Service
	template bool
	// unlabelled says that the ConfigMap lost the label that OSCAR lists by: all but the list goes on.
	unlabelled bool
	// halted says that an exposed service has no instances, and unscaled that its autoscaler is gone.
	halted, unscaled bool
}

// exposed says whether the service has a Deployment.
func (e *entry) exposed() bool {
	return len(e.service.Expose.APIPort) > 0 && e.service.Expose.APIPort[0] != 0
}

// job is a Kubernetes Job with its one pod.
type job struct {
	name, namespace, service   string
	status                     string
	event                      string
	output                     string
	minio                      *MinIOKeys // of another cluster
	created, started, finished time.Time

	// What the workload knows of it.
	cpu, memory int64 // of its pod
	node        string
	ends        time.Time
}

func newKube(services string, below Kubernetes, knative bool) kube {
	return kube{
		below:      below,
		knative:    knative,
		namespaces: map[string]bool{"default": true, "kube-system": true, "oscar": true, services: true},
		services:   map[key]*entry{},
		secrets:    map[key]map[string]string{},
		volumes:    map[key]*volume{},
		jobs:       map[key]*job{},
		index:      map[key][]*job{},
		starts:     starts{names: map[string]int{}, events: map[string]int{}},
		pullers:    map[key]bool{},
	}
}

// list returns all services in the order in which Kubernetes lists ConfigMaps: by namespace, then by name.
func (k *kube) list() []*entry {
	keys := slices.SortedFunc(maps.Keys(k.services), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	out := make([]*entry, 0, len(keys))
	for _, id := range keys {
		out = append(out, k.services[id])
	}
	return out
}

// labelled are those that OSCAR lists.
func (k *kube) labelled() []*entry {
	return slices.DeleteFunc(k.list(), func(e *entry) bool { return e.unlabelled })
}

// find returns the ConfigMap of that name in any namespace. Creation refuses a second one.
func (k *kube) find(name string) (key, *entry) {
	for id, e := range k.services {
		if id.name == name {
			return id, e
		}
	}
	return key{}, nil
}

// read returns a service as OSCAR reads it: errMissing without ConfigMap or without PodTemplate. namespace "" means
// all of them.
func (k *kube) read(namespace, name string) (key, *entry, error) {
	id, e := k.find(name)
	if e == nil || !e.template || namespace != "" && namespace != id.namespace {
		return key{}, nil, errMissing
	}
	return id, e, nil
}

// createService makes ConfigMap, volume and PodTemplate. Like OSCAR it leaves nothing of them behind when it fails: a
// volume goes unless it is to be retained, also one that was there before.
func (k *kube) createService(svc *wire.Service) error {
	if !k.namespaces[svc.Namespace] {
		return fmt.Errorf("namespaces %q not found", svc.Namespace)
	}
	if err := checkObject("ConfigMap", svc.Name, map[string]string{wire.ServiceLabel: svc.Name}, nil); err != nil {
		return err
	}
	if err := k.ensureVolume(svc); err != nil {
		k.dropVolume(svc)
		return err
	}
	if err := quantities(svc); err != nil {
		k.dropVolume(svc)
		return err
	}
	if err := checkObject("PodTemplate", svc.Name, svc.Labels, svc.Annotations); err != nil {
		k.dropVolume(svc)
		return err
	}
	if k.below != nil {
		if err := k.below.PutService(svc.Stored()); err != nil {
			k.dropVolume(svc)
			return err
		}
	}
	k.services[key{svc.Namespace, svc.Name}] = &entry{service: svc.Stored(), template: true}
	return nil
}

// updateService replaces a definition. The PodTemplate then has no labels and annotations of its own, so that a bad
// one is found only when a job is started. A PUT that exposes a service fails for want of its Deployment, and that of an
// exposed service that was stopped starts it and fails for want of the autoscaler; both put the old definition back. Without
// Knative that of an exposed service empties its script.
func (k *kube) updateService(svc *wire.Service) error {
	id := key{svc.Namespace, svc.Name}
	old := k.services[id]
	if old == nil {
		return fmt.Errorf("the service %q does not have a registered ConfigMap", svc.Name)
	}
	if err := quantities(svc); err != nil {
		return err
	}
	next := &entry{service: svc.Stored(), template: true}
	if next.exposed() && !old.exposed() {
		return fmt.Errorf("deployments.apps %q not found", svc.Name+"-dpl")
	}
	if next.exposed() && old.unscaled {
		old.halted = false
		return fmt.Errorf("horizontalpodautoscalers.autoscaling %q not found", svc.Name+"-hpa")
	}
	if next.exposed() && !k.knative {
		next.service.Script = ""
	}
	if k.below != nil {
		if err := k.below.PutService(next.service); err != nil {
			return err
		}
	}
	k.services[id] = next
	return nil
}

// deleteService removes PodTemplate, ConfigMap, Jobs, volume and Secret. Without a PodTemplate nothing is removed, which is
// how a refused create leaves its Secret behind.
func (k *kube) deleteService(id key) error {
	e := k.services[id]
	if e == nil || !e.template {
		return errMissing
	}
	if err := k.deleteJobs(id, true); err != nil {
		return err
	}
	if k.below != nil {
		if err := errors.Join(k.below.DeleteService(id.namespace, id.name), k.below.DeleteSecret(id.namespace, id.name)); err != nil {
			return err
		}
	}
	delete(k.services, id)
	k.dropVolume(e.service)
	delete(k.secrets, id)
	return nil
}

// deleteJobs removes the Jobs of a service: all of them, or the succeeded ones.
func (k *kube) deleteJobs(service key, all bool) error {
	k.observe(time.Now())
	for _, j := range k.jobsOf(service) {
		if all || j.status == JobSucceeded {
			if err := k.deleteJob(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// createSecret refuses what Kubernetes refuses; the caller has checked that the Secret is not there.
func (k *kube) createSecret(id key, data map[string]string) error {
	if !k.namespaces[id.namespace] {
		return fmt.Errorf("namespaces %q not found", id.namespace)
	}
	if err := checkObject("Secret", id.name, nil, nil); err != nil {
		return err
	}
	return k.putSecret(id, data)
}

func (k *kube) putSecret(id key, data map[string]string) error {
	if k.below != nil {
		if err := k.below.PutSecret(id.namespace, id.name, data); err != nil {
			return err
		}
	}
	k.secrets[id] = maps.Clone(data)
	return nil
}

// createJob stores a Job unless its name is taken or Kubernetes would refuse it. The event changes as it does in
// JSON: each byte that is not UTF-8 becomes U+FFFD.
func (k *kube) createJob(j *job, svc *wire.Service) error {
	if err := checkJob(j.name, svc); err != nil {
		return err
	}
	id := key{j.namespace, j.name}
	if k.jobs[id] != nil && k.below == nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: "batch", Resource: "jobs"}, j.name)
	}
	annotations := 0
	for name, value := range svc.Annotations {
		annotations += len(name) + len(value)
	}
	if len(j.event)+2*annotations+objectFrame > maxObject {
		// The text is Kubernetes' own and misleading: the object is too large.
		return refusal(fmt.Sprintf("Job.batch %q is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: `selector` not auto-generated]", j.name))
	}
	j.event = string([]rune(j.event))
	if k.below != nil {
		if err := k.below.CreateJob(svc, j.name, j.event); err != nil {
			return err
		}
	}
	if old := k.jobs[id]; old != nil {
		k.forgetJob(old) // the cluster below had lost it
	}
	k.keepJob(j)
	k.load.add(j, svc)
	return nil
}

func (k *kube) keepJob(j *job) {
	service := key{j.namespace, j.service}
	k.jobs[key{j.namespace, j.name}] = j
	k.index[service] = append(k.index[service], j)
	k.starts.count(j)
}

// deleteJob removes a Job and its pod.
func (k *kube) deleteJob(j *job) error {
	if k.below != nil {
		if err := k.below.DeleteJob(j.namespace, j.name); err != nil {
			return err
		}
	}
	k.forgetJob(j)
	return nil
}

func (k *kube) forgetJob(j *job) {
	delete(k.jobs, key{j.namespace, j.name})
	service := key{j.namespace, j.service}
	k.index[service] = slices.DeleteFunc(k.index[service], func(other *job) bool { return other == j })
	if len(k.index[service]) == 0 {
		delete(k.index, service)
	}
	k.load.remove(j, time.Now())
}

// jobsOf returns the Jobs of a service, by name. The list belongs to the caller: Jobs may be
// deleted meanwhile.
func (k *kube) jobsOf(service key) []*job {
	all := k.index[service]
	byName := func(a, b *job) int { return cmp.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(all, byName) {
		slices.SortFunc(all, byName)
	}
	return slices.Clone(all)
}

// quantities checks what OSCAR hands to Kubernetes as resource quantities.
func quantities(svc *wire.Service) error {
	for _, q := range []string{svc.CPU, svc.Memory, svc.EphemeralStorageRequest} {
		if q == "" {
			continue
		}
		if _, err := resource.ParseQuantity(q); err != nil {
			return err
		}
	}
	return nil
}

// checkObject words a refusal as Kubernetes does.
func checkObject(kind, name string, labels, annotations map[string]string) error {
	meta := field.NewPath("metadata")
	var bad field.ErrorList
	for _, msg := range validation.NameIsDNSSubdomain(name, false) {
		bad = append(bad, field.Invalid(meta.Child("name"), name, msg))
	}
	bad = append(bad, metavalidation.ValidateLabels(labels, meta.Child("labels"))...)
	bad = append(bad, validation.ValidateAnnotations(annotations, meta.Child("annotations"))...)
	if len(bad) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, bad)
}

// checkJob words the refusal of a Job. Its name is also a label of its pods, hence the limit of 63.
func checkJob(name string, svc *wire.Service) error {
	meta := field.NewPath("metadata")
	labels := field.NewPath("spec", "template", "labels")
	var bad field.ErrorList
	for _, msg := range validation.NameIsDNSSubdomain(name, false) {
		bad = append(bad, field.Invalid(meta.Child("name"), name, msg))
	}
	if len(name) > 63 {
		bad = append(bad, field.Invalid(labels, name, "must be no more than 63 bytes"))
	}
	bad = append(bad, metavalidation.ValidateLabels(svc.Labels, meta.Child("labels"))...)
	bad = append(bad, validation.ValidateAnnotations(svc.Annotations, meta.Child("annotations"))...)
	if len(bad) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, name, bad)
}

// jobName is the name that OSCAR gives to a Job without X-Delegated-Job-ID.
func jobName(service, uuid string) string {
	if len(service) >= 25 {
		service = service[:16]
	}
	return strings.Join([]string{service, uuid}, "-")
}
