package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

func amounts(cpu, memory, gpu string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, "nvidia.com/gpu": gpu} {
		if value != "" {
			list[name] = resource.MustParse(value)
		}
	}
	return list
}

// makeNode makes a node as a kubelet reports it.
func makeNode(t *testing.T, name string, all corev1.ResourceList, change ...func(*corev1.Node)) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	n.Status = corev1.NodeStatus{Allocatable: all, Capacity: all, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	for _, c := range change {
		c(n)
	}
	api := shared.Cluster(t).Client().CoreV1().Nodes()
	status, labels, spec := n.Status, n.Labels, n.Spec
	made, err := api.Create(t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status, made.Labels = status, labels
	if made, err = api.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Admission may have tainted it as not ready yet; as its controller does, take that away.
	made.Spec.Taints, made.Labels = spec.Taints, labels
	if _, err := api.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// makePod puts a pod on a node, in a phase.
func makePod(t *testing.T, node, name string, phase corev1.PodPhase, spec corev1.PodSpec) {
	t.Helper()
	namespace := shared.Cluster(t).Namespace(t, "oscar-svc-full")
	pods := shared.Cluster(t).Client().CoreV1().Pods(namespace)
	spec.NodeName = node
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = phase
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func container(name string, requests corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Image: "x", Resources: corev1.ResourceRequirements{Requests: requests, Limits: amountsOfGPU(requests)}}
}

// amountsOfGPU: Kubernetes wants a limit of what cannot be shared.
func amountsOfGPU(requests corev1.ResourceList) corev1.ResourceList {
	if q, ok := requests["nvidia.com/gpu"]; ok {
		return corev1.ResourceList{"nvidia.com/gpu": q}
	}
	return nil
}

func TestNodesHaveWhatPodsHaveNotAskedFor(t *testing.T) {
	client := open(t)
	label := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[key] = value }
	}
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: effect}} }
	}
	all := amounts("8", "32Gi", "")
	makeNode(t, "worker", amounts("7900m", "32Gi", "4"))
	makeNode(t, "preferred-not", all, taint(corev1.TaintEffectPreferNoSchedule))
	makeNode(t, "overfull", all)
	makeNode(t, "front", all, label("virtual-node.interlink/type", "virtual-kubelet"))
	makeNode(t, "head", all, label("node-role.kubernetes.io/control-plane", ""))
	makeNode(t, "tainted", all, taint(corev1.TaintEffectNoSchedule))
	makeNode(t, "cordoned", all, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	makeNode(t, "away", all, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })

	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("sidecar", amounts("200m", "1Gi", ""))
	sidecar.RestartPolicy = &always
	// Started: 200m and then 3 cores beside it; running: 1200m. The start counts.
	makePod(t, "worker", "starts-big", corev1.PodRunning, corev1.PodSpec{
		InitContainers: []corev1.Container{sidecar, container("init", amounts("3", "512Mi", ""))},
		Containers:     []corev1.Container{container("a", amounts("500m", "1Gi", "")), container("b", amounts("500m", "1Gi", "1"))},
	})
	makePod(t, "worker", "waits", corev1.PodPending, corev1.PodSpec{Containers: []corev1.Container{container("a", amounts("100m", "1Gi", ""))}})
	makePod(t, "worker", "done", corev1.PodSucceeded, corev1.PodSpec{Containers: []corev1.Container{container("a", amounts("2", "2Gi", "2"))}})
	makePod(t, "worker", "failed", corev1.PodFailed, corev1.PodSpec{Containers: []corev1.Container{container("a", amounts("2", "2Gi", "2"))}})
	makePod(t, "cordoned", "elsewhere", corev1.PodRunning, corev1.PodSpec{Containers: []corev1.Container{container("a", amounts("2", "2Gi", ""))}})
	// Kubernetes takes such, and its own counts of them are 0, or less.
	makePod(t, "overfull", "uncountable", corev1.PodPending, corev1.PodSpec{Containers: []corev1.Container{
		container("a", amounts("1e18", "1e19", "")), container("b", amounts("9223372036854776", "", "")),
	}})

	const gib = 1 << 30
	want := map[string]kube.Node{
		"worker":        {Name: "worker", Allocatable: kube.Resources{MilliCPU: 7900, MemoryBytes: 32 * gib, GPU: 4}, Requested: kube.Resources{MilliCPU: 3300, MemoryBytes: 4 * gib, GPU: 1}},
		"preferred-not": {Name: "preferred-not", Allocatable: kube.Resources{MilliCPU: 8000, MemoryBytes: 32 * gib}},
		"overfull":      {Name: "overfull", Allocatable: kube.Resources{MilliCPU: 8000, MemoryBytes: 32 * gib}, Requested: kube.Resources{MilliCPU: 2 << 56, MemoryBytes: 1 << 56}},
	}
	got := map[string]kube.Node{}
	kubetest.Eventually(t, "the nodes are as they were made", func() bool {
		nodes, err := client.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		for _, n := range nodes {
			got[n.Name] = n
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})

	// What is so for the moment alone does not make a node smaller.
	sizes, err := client.Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range sizes {
		names = append(names, n.Name)
		if n.Requested != (kube.Resources{}) || n.Allocatable.MilliCPU < 7900 {
			t.Errorf("%+v", n)
		}
	}
	slices.Sort(names)
	if want := []string{"away", "cordoned", "front", "overfull", "preferred-not", "worker"}; !slices.Equal(names, want) {
		t.Errorf("nodes that may take pods at any time: %v, want %v", names, want)
	}
}

func TestNodesWithoutTheRightToLook(t *testing.T) {
	cluster := installed(t)
	client, err := kube.New(cluster.ServiceAccount(t, "nobodys", "looks-at-nodes"), kube.Config{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []func(context.Context) ([]kube.Node, error){client.Nodes, client.Sizes} {
		if nodes, err := ask(t.Context()); !errors.Is(err, kube.ErrDenied) || len(nodes) != 0 {
			t.Errorf("%v, %v", nodes, err)
		}
	}
}
