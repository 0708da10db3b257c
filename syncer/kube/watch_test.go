package kube_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

func TestWatchTellsOfEveryChangeOfADefinition(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	cluster := shared.Cluster(t)
	first := define(t, kube.ServicesNamespace, service)
	other := cluster.Namespace(t, "oscar-svc-watched")
	if _, err := cluster.Client().CoreV1().ConfigMaps(other).Create(t.Context(), plain("unlabelled"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan string, 1000), make(chan error, 1)
	go func() { ended <- client.Watch(ctx, func(service string) { told <- service }) }()
	heard := func(what, want string) {
		t.Helper()
		limit := time.After(kubetest.Patience)
		for {
			select {
			case got := <-told:
				if got == "unlabelled" {
					t.Error("a ConfigMap that is no definition was told of")
				}
				if got == want {
					return
				}
			case <-limit:
				t.Fatalf("%s: not told", what)
			}
		}
	}
	heard("what was there before", service)
	if err := change(t.Context(), cluster.Client(), first, "false"); err != nil {
		t.Fatal(err)
	}
	heard("a change", service)
	made := define(t, other, service+"2")
	heard("a new one, in a user's namespace", service+"2")
	if err := cluster.Client().CoreV1().ConfigMaps(other).Delete(t.Context(), made.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	heard("a deletion", service+"2")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

// TestWatchGoesOnAfterABreak: what was changed while the connection was cut is told
// afterwards, too.
func TestWatchGoesOnAfterABreak(t *testing.T) {
	t.Parallel()
	cluster, service := shared.Cluster(t), name(t)
	namespace := cluster.Namespace(t, "oscar-broken")
	definition := define(t, namespace, service)
	conf := cluster.Admin()
	proxy := storetest.NewProxy(t, "https://"+conf.Host)
	conf.Host = proxy.Endpoint()
	client, err := kube.New(conf, kube.Config{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Watch(ctx, func(got string) {
			if got == service {
				told <- struct{}{}
			}
		})
	}()
	_ = wait(t, "what was there before", told)
	proxy.Freeze()
	proxy.Cut()
	if err := change(t.Context(), cluster.Client(), definition, "while it was away"); err != nil {
		t.Fatal(err)
	}
	proxy.Thaw()
	_ = wait(t, "the change is told", told)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}
