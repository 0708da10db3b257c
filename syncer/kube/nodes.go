package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Resources are an amount of millicores, bytes and whole GPUs.
type Resources struct {
	MilliCPU, MemoryBytes, GPU int64
}

// Node is one that new pods may be put on: what it can give to all, and what the pods
// that are on it and have not ended have asked for.
type Node struct {
	Name        string
	Allocatable Resources
	Requested   Resources
}

const (
	gpuResource corev1.ResourceName = "nvidia.com/gpu"
	// interlinkLabel, with the value interlinkType, is on the fronts of other machines.
	interlinkLabel = "virtual-node.interlink/type"
	interlinkType  = "virtual-kubelet"
	// listPage is how many objects one answer has, and maxListed how many are read at
	// all: a syncer is small.
	listPage  = 500
	maxListed = 100_000
)

// Nodes implements Interface.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var nodes []Node
	at := map[string]int{}
	listed, err := c.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range takingPods(listed) {
		at[n.Name] = len(nodes)
		nodes = append(nodes, Node{Name: n.Name, Allocatable: resources(n.Status.Allocatable)})
	}
	opts := metav1.ListOptions{FieldSelector: onNodes().String(), Limit: listPage}
	for read := 0; read < maxListed; read += listPage {
		page, err := c.podPage(ctx, opts)
		if err != nil {
			return nil, failed("list of pods", err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if n, ok := at[pod.Spec.NodeName]; ok {
				nodes[n].Requested = nodes[n].Requested.plus(requested(&pod.Spec))
			}
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return nodes, nil
		}
	}
	return nil, fmt.Errorf("kubernetes: there are more than %d pods", maxListed)
}

// Sizes implements Interface. It costs one list of nodes, and none of pods.
func (c *Client) Sizes(ctx context.Context) ([]Node, error) {
	listed, err := c.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	workers := slices.ContainsFunc(listed, func(n corev1.Node) bool { return !controlPlane(&n) })
	var out []Node
	for i := range listed {
		n := &listed[i]
		if n.Labels[interlinkLabel] == interlinkType || !reserved(n) && !(workers && controlPlane(n)) {
			out = append(out, Node{Name: n.Name, Allocatable: resources(n.Status.Allocatable)})
		}
	}
	return out, nil
}

// reserved says whether a node has a taint that is more than its present condition.
func reserved(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		condition := strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/")
		return !condition && (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute)
	})
}

func (c *Client) podPage(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	return c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, opts)
}

func (c *Client) listNodes(ctx context.Context) ([]corev1.Node, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, failed("list of nodes", err)
	}
	return list.Items, nil
}

// takingPods are the nodes that a job's pod may be put on: ready, not cordoned, without
// a taint that it would have to tolerate, no interLink. Control-plane nodes count only
// where there are no others, as OSCAR has it.
func takingPods(nodes []corev1.Node) []*corev1.Node {
	workers := slices.ContainsFunc(nodes, func(n corev1.Node) bool { return !controlPlane(&n) })
	var out []*corev1.Node
	for i := range nodes {
		n := &nodes[i]
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		closed := n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		})
		if ready && !closed && !(workers && controlPlane(n)) && n.Labels[interlinkLabel] != interlinkType {
			out = append(out, n)
		}
	}
	return out
}

func controlPlane(n *corev1.Node) bool {
	_, now := n.Labels["node-role.kubernetes.io/control-plane"]
	_, before := n.Labels["node-role.kubernetes.io/master"]
	return now || before
}

// requested is what the scheduler counts a pod for: its containers together, or the
// most that it needs while it is started, and its overhead. Containers that are
// started first and stay (sidecars) count in both.
func requested(spec *corev1.PodSpec) Resources {
	var containers, sidecars, starting Resources
	for i := range spec.Containers {
		containers = containers.plus(resources(spec.Containers[i].Resources.Requests))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		own := resources(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = sidecars.plus(own)
			own = Resources{}
		}
		starting = starting.most(sidecars.plus(own))
	}
	total := containers.plus(sidecars).most(starting)
	if spec.Resources != nil { // of the pod as a whole, which go first
		pod := spec.Resources.Requests
		if cpu, ok := pod[corev1.ResourceCPU]; ok {
			total.MilliCPU = count(cpu, resource.Milli)
		}
		if memory, ok := pod[corev1.ResourceMemory]; ok {
			total.MemoryBytes = count(memory, 0)
		}
	}
	return total.plus(resources(spec.Overhead))
}

func resources(list corev1.ResourceList) Resources {
	cpu, memory, gpu := list[corev1.ResourceCPU], list[corev1.ResourceMemory], list[gpuResource]
	return Resources{count(cpu, resource.Milli), count(memory, 0), count(gpu, 0)}
}

// count is the value of a quantity in units of a scale, within what sums of many can hold.
func count(q resource.Quantity, scale resource.Scale) int64 {
	const most = 1 << 56
	switch {
	case q.Sign() <= 0:
		return 0
	case q.Cmp(*resource.NewScaledQuantity(most, scale)) > 0: // its own value may be anything then
		return most
	}
	return q.ScaledValue(scale)
}

func (r Resources) plus(o Resources) Resources {
	return Resources{r.MilliCPU + o.MilliCPU, r.MemoryBytes + o.MemoryBytes, r.GPU + o.GPU}
}

func (r Resources) most(o Resources) Resources {
	return Resources{max(r.MilliCPU, o.MilliCPU), max(r.MemoryBytes, o.MemoryBytes), max(r.GPU, o.GPU)}
}
