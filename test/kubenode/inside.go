//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/oscarfed/oscarfed/store/embedded"
)

const (
	// refusedFile has the reason when the machine does not allow what the node needs.
	refusedFile = "refused"
	// startLimit is for a busy machine; an idle one needs ten seconds.
	startLimit = 5 * time.Minute
	pollPause  = 200 * time.Millisecond
	socket     = "/run/containerd/containerd.sock"
	pauseImage = "localhost/pause:1"
)

// inside is the first process of the node's namespaces: when it ends, all others end.
func inside(ctx context.Context, cfg config, stdout io.Writer) error {
	start := time.Now()
	if err := isolate(cfg.dir); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return errors.Join(err, os.WriteFile(filepath.Join(cfg.dir, refusedFile), []byte(err.Error()), 0o600))
		}
		return err
	}
	n := &node{config: cfg, died: make(chan error, 1)}
	if err := n.start(ctx); err != nil {
		return errors.Join(err, n.logs())
	}
	fmt.Fprintf(stdout, "node Ready after %.1f s\n", time.Since(start).Seconds())
	var err error
	if len(cfg.command) == 0 {
		err = n.runPod(ctx, stdout)
	} else {
		err = n.runCommand(ctx, stdout)
	}
	if err != nil {
		if _, ok := errors.AsType[*exitError](err); !ok {
			err = errors.Join(err, n.logs())
		}
		return err
	}
	fmt.Fprintf(stdout, "done after %.1f s\n", time.Since(start).Seconds())
	return nil
}

// node is the programs of one node.
type node struct {
	config
	client *kubernetes.Clientset
	// started are the names of the programs, in order.
	started []string
	// died says which program has ended by itself.
	died chan error
}

func (n *node) kubeconfig() string { return filepath.Join(n.dir, "admin.conf") }

// start starts everything and waits until the node is Ready.
func (n *node) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	etcd, err := embedded.Start(ctx, embedded.Config{
		Dir: filepath.Join(n.dir, "etcd"), ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("etcd below Kubernetes: %w", err)
	}
	k, err := newKeys(n.dir)
	if err != nil {
		return err
	}
	if err := writeConfigs(n.dir, k); err != nil {
		return err
	}
	if err := n.runtime(ctx); err != nil {
		return err
	}
	return n.kubernetes(ctx, etcd.Endpoint(), k)
}

// runtime starts containerd and gives it the images that pods need and no registry has.
func (n *node) runtime(ctx context.Context) error {
	if err := n.program("/usr/bin/containerd", "--config", filepath.Join(n.dir, "containerd.toml"), "--address", socket); err != nil {
		return err
	}
	images := map[string]string{pauseImage: filepath.Join(n.node, "pause")}
	maps.Copy(images, n.images)
	for name, program := range images {
		image := filepath.Join(n.dir, filepath.Base(program)+".tar")
		if err := writeImage(image, name, program); err != nil {
			return err
		}
		err := n.until(ctx, "containerd imports images", func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, "/usr/bin/ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", image).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// kubernetes starts the control plane, and then what runs on the node.
func (n *node) kubernetes(ctx context.Context, etcd string, k *keys) error {
	err := n.program(filepath.Join(n.kube, "kube-apiserver"),
		"--etcd-servers="+etcd, "--bind-address=0.0.0.0", "--advertise-address="+nodeAddress, "--secure-port=6443",
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--admission-control-config-file="+filepath.Join(n.dir, "admission.yaml"),
		"--token-auth-file="+k.Tokens, "--client-ca-file="+k.Authority, "--tls-cert-file="+k.ServerCert, "--tls-private-key-file="+k.ServerKey,
		"--kubelet-client-certificate="+k.clientCert, "--kubelet-client-key="+k.clientKey,
		"--kubelet-certificate-authority="+k.Authority, "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+k.AccountPublic, "--service-account-signing-key-file="+k.AccountPrivate)
	if err != nil {
		return err
	}
	conf, err := clientcmd.BuildConfigFromFlags("", n.kubeconfig())
	if err != nil {
		return err
	}
	if n.client, err = kubernetes.NewForConfig(conf); err != nil {
		return err
	}
	err = n.until(ctx, "the API server is ready", func(ctx context.Context) error {
		return n.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return err
	}
	if err := n.letReadLogs(ctx); err != nil {
		return err
	}
	admin := "--kubeconfig=" + n.kubeconfig()
	for _, p := range [][]string{
		{
			filepath.Join(n.kube, "kube-controller-manager"), admin, "--leader-elect=false", "--use-service-account-credentials",
			"--service-account-private-key-file=" + k.AccountPrivate, "--root-ca-file=" + k.Authority, "--allocate-node-cidrs=false",
			"--flex-volume-plugin-dir=" + filepath.Join(n.dir, "volume-plugins"),
		},
		{filepath.Join(n.node, "kube-scheduler"), admin, "--leader-elect=false"},
		{
			filepath.Join(n.node, "kubelet"), "--config=" + filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig=" + filepath.Join(n.dir, "kubelet.conf"),
			"--node-ip=" + nodeAddress, "--hostname-override=" + nodeName,
		},
		{filepath.Join(n.node, "kube-proxy"), "--config=" + filepath.Join(n.dir, "proxy.yaml")},
		{filepath.Join(n.node, "coredns"), "-conf", filepath.Join(n.dir, "Corefile")},
	} {
		if err := n.program(p[0], p[1:]...); err != nil {
			return err
		}
	}
	return n.until(ctx, "the node is Ready", n.ready)
}

// letReadLogs gives the API server's user the right to ask kubelet for logs.
func (n *node) letReadLogs(ctx context.Context) error {
	return n.until(ctx, "the API server may ask kubelet", func(ctx context.Context) error {
		_, err := n.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: kubeletClient},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeletClient}},
		}, metav1.CreateOptions{})
		return err
	})
}

func (n *node) ready(ctx context.Context) error {
	found, err := n.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range found.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", found.Status.Conditions)
}

// program starts a program whose log is in the node's folder.
func (n *node) program(path string, args ...string) error {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(n.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the program has it open
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	n.started = append(n.started, name)
	go func() {
		err := cmd.Wait()
		select {
		case n.died <- fmt.Errorf("%s ended by itself: %w", name, errors.Join(errEnded, err)):
		default: // the first one is told
		}
	}()
	return nil
}

var errEnded = errors.New("the node needs it to the end")

// until tries until something succeeds.
func (n *node) until(ctx context.Context, what string, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollPause):
		case died := <-n.died:
			return died
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// runCommand runs what was asked for, with the node's kubectl.
func (n *node) runCommand(ctx context.Context, stdout io.Writer) error {
	cmd := exec.CommandContext(ctx, n.command[0], n.command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.kubeconfig(), "CONTAINERD_ADDRESS="+socket, "CONTAINERD_NAMESPACE=k8s.io",
		"PATH="+n.node+string(os.PathListSeparator)+os.Getenv("PATH"))
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &exitError{max(1, exit.ExitCode())}
	}
	return err
}

// keptLog bounds what is shown of each log, in bytes: its end.
const keptLog = 4 << 10

// logs is an error with the end of each program's log: the files go with the node.
func (n *node) logs() error {
	var errs []error
	for _, name := range n.started {
		data, err := os.ReadFile(filepath.Join(n.dir, name+".log"))
		errs = append(errs, err, fmt.Errorf("log of %s:\n%s", name, data[max(0, len(data)-keptLog):]))
	}
	return errors.Join(errs...)
}
