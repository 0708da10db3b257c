package kubetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/kubekeys"
)

// Config of a cluster.
type Config struct {
	// Controllers says that the controller manager runs, too: Jobs get pods, owned
	// objects are collected, namespaces end, service accounts get a CA.
	Controllers bool
}

// Limits of a start. The machine may be busy.
const (
	startPatience = await.Limit
	// startTries: a port that was free a moment ago may be taken.
	startTries = 3
	pollPause  = 50 * time.Millisecond
)

// Cluster is a running API server.
type Cluster struct {
	admin  *rest.Config
	client *kubernetes.Clientset
	dir    string
	etcd   *embedded.Server
	api    *program
	// controllers is nil when there are none.
	controllers *program

	stop    sync.Once
	stopErr error
}

// Start starts a cluster and waits until it serves. The caller stops it.
func Start(cfg Config) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if err := c.start(bin, cfg); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(bin string, cfg Config) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	// The folder outlives the test that happens to be the first.
	if c.dir, err = os.MkdirTemp("", "kubetest"); err != nil {
		return err
	}
	c.etcd, err = embedded.Start(ctx, embedded.Config{
		Dir: filepath.Join(c.dir, "etcd"), ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("etcd below Kubernetes: %w", err)
	}
	admin := kubekeys.Administrator()
	keys, err := kubekeys.Make(c.dir, "kubetest", []string{"127.0.0.1"}, admin)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := c.serve(ctx, bin, keys, admin.Token)
		if err == nil {
			break
		}
		if try == startTries || !errors.Is(err, errEnded) {
			return err
		}
	}
	if cfg.Controllers {
		return c.control(bin, keys)
	}
	return nil
}

// errEnded says that a program has ended by itself.
var errEnded = errors.New("it ended by itself")

// serve starts the API server on a free port and waits until it serves.
func (c *Cluster) serve(ctx context.Context, bin string, keys *kubekeys.Keys, adminToken string) (err error) {
	port, err := freePort()
	if err != nil {
		return err
	}
	c.api, err = run(bin, apiServer,
		"--etcd-servers="+c.etcd.Endpoint(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/20",
		"--authorization-mode=RBAC", "--token-auth-file="+keys.Tokens, "--client-ca-file="+keys.Authority,
		"--tls-cert-file="+keys.ServerCert, "--tls-private-key-file="+keys.ServerKey,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys.AccountPublic, "--service-account-signing-key-file="+keys.AccountPrivate,
		"--enable-priority-and-fairness=false",
	)
	if err != nil {
		return err
	}
	c.admin = &rest.Config{
		Host:            net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		TLSClientConfig: rest.TLSClientConfig{CAData: keys.AuthorityPEM},
		BearerToken:     adminToken,
		// Tests are not throttled.
		QPS: -1,
	}
	if c.client, err = kubernetes.NewForConfig(c.admin); err != nil {
		return err
	}
	if err := c.awaitServing(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", apiServer, err), c.api.stop(), errors.New(c.api.log.String()))
	}
	return nil
}

// awaitServing waits until the API server is ready and its first namespaces are made.
func (c *Cluster) awaitServing(ctx context.Context) error {
	var last error
	for {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(asking).Error()
		for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if err == nil {
				_, err = c.client.CoreV1().Namespaces().Get(asking, name, metav1.GetOptions{})
			}
		}
		cancel()
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) || last == nil {
			last = err
		}
		select {
		case <-time.After(pollPause):
		case <-c.api.ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("it was not ready within %s: %w", startPatience, last)
		}
	}
}

// control starts the controller manager, which needs no waiting for.
func (c *Cluster) control(bin string, keys *kubekeys.Keys) error {
	kubeconfig := filepath.Join(c.dir, "controllers.kubeconfig")
	if err := writeKubeconfig(kubeconfig, c.admin, metav1.NamespaceDefault); err != nil {
		return err
	}
	var err error
	c.controllers, err = run(bin, controllerManager,
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+keys.AccountPrivate, "--root-ca-file="+keys.Authority,
		"--controllers=job-controller,namespace-controller,garbage-collector-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,ttl-after-finished-controller",
	)
	return err
}

// Stop ends what was started and removes its data.
func (c *Cluster) Stop() error {
	c.stop.Do(func() {
		c.stopErr = errors.Join(c.controllers.stop(), c.api.stop())
		if c.etcd != nil {
			c.etcd.Close()
		}
		if c.dir != "" {
			c.stopErr = errors.Join(c.stopErr, os.RemoveAll(c.dir))
		}
	})
	return c.stopErr
}

// freePort is one that is free at this moment.
func freePort() (int, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
