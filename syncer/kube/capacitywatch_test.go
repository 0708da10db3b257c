package kube_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/test/kubetest"
)

// TestRoomIsSeenToComeAndGo: pods that get a node, and end, and nodes that take none.
func TestRoomIsSeenToComeAndGo(t *testing.T) {
	t.Parallel()
	cluster, client := installed(t), open(t)
	namespace, api := cluster.Namespace(t, "oscar-svc-room"), cluster.Client()
	changes := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.WatchCapacity(ctx, func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		})
	}()
	// Other tests have pods and nodes, too: what is done is done until it is told.
	told := func(what string, do func(i int)) {
		t.Helper()
		i := 0
		kubetest.Eventually(t, what, func() bool {
			do(i)
			i++
			select {
			case <-changes:
				return true
			default:
				return false
			}
		})
	}
	node, err := api.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "room-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told("a node that gives another amount", func(i int) {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(i+1), resource.DecimalSI)}
		if node, err = api.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	var pods []string
	told("pods that get a node", func(int) {
		p, err := api.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "room-"},
			Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "c", Image: "example.org/work"}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, p.Name)
	})
	told("pods that end", func(i int) {
		if i < len(pods) {
			setPod(t, namespace, pods[i], corev1.PodStatus{Phase: corev1.PodSucceeded})
		}
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}
