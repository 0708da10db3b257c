//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	podNamespace = "default"
	podName      = "speaker"
	podSays      = "a pod ran"
)

// runPod runs a pod to its end, and reads its log through the API server and kubelet.
func (n *node) runPod(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	pods := n.client.CoreV1().Pods(podNamespace)
	// The controllers make the namespace's service account a moment later.
	err := n.until(ctx, "the API server accepts a pod", func(ctx context.Context) error {
		_, err := pods.Create(ctx, speaker(), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = n.until(ctx, "the pod has ended", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, podName, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("its status is %+v", pod.Status)
		}
		return err
	})
	if err != nil {
		return err
	}
	log, err := pods.GetLogs(podName, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("log of the pod: %w", err)
	}
	if got := strings.TrimSpace(string(log)); got != podSays {
		return fmt.Errorf("the pod's log is %q, want %q", got, podSays)
	}
	fmt.Fprintln(stdout, "a pod ran to its end, and its log was read")
	return nil
}

func speaker() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: podName, Image: pauseImage, ImagePullPolicy: corev1.PullNever, Args: strings.Fields(podSays),
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
