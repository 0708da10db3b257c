package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Limits of requests.
const (
	// callTimeout bounds each single request.
	callTimeout = 10 * time.Second
	// streamTimeout bounds a watch, and a list at its start. The API server ends a
	// watch after 5 to 10 minutes by itself.
	streamTimeout = 11 * time.Minute
	// perSecond and burst bound how many requests are sent.
	perSecond = 50
	burst     = 100
	// longestWait is how long is waited at most when an answer tells to come back later.
	longestWait = 30 * time.Second
)

// Labels.
const (
	// serviceLabel is on the ConfigMap in which OSCAR keeps a service's definition.
	serviceLabel = "oscar_service"
	// managedByLabel, with the value ours, is on what we make.
	managedByLabel = "app.kubernetes.io/managed-by"
	ours           = "oscarfed-syncer"
)

// Config says where Kubernetes is and how OSCAR uses it.
type Config struct {
	// Kubeconfig is a file; empty takes the service account of the own pod.
	Kubeconfig string
	// Services is OSCAR's namespace of services; default ServicesNamespace.
	Services string
	// LeaseTerm is how long a syncer that died still leads; default 30 s, at least
	// 3 s, in whole seconds.
	LeaseTerm time.Duration
	// Now is the clock; default time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Client is the Kubernetes below an OSCAR. It is safe for concurrent use.
type Client struct {
	cfg  Config
	kube kubernetes.Interface
	// lists is for long lists: they do not hold up other requests, and are in the form
	// that takes the least of both sides.
	lists    kubernetes.Interface
	metadata metadata.Interface
	dynamic  dynamic.Interface
	now      func() time.Time
	// changing holds a token while a Secret of refresh tokens is being changed.
	changing chan struct{}
	// leaseTrouble is why the Lease cannot be had; nil when it can.
	leaseTrouble atomic.Pointer[error]
}

// Open makes a Client; it asks nothing yet. Outside of a pod and without a
// kubeconfig it answers ErrAbsent, and so in a pod without a service account.
func Open(cfg Config) (*Client, error) {
	var conf *rest.Config
	var err error
	if cfg.Kubeconfig != "" {
		conf, err = clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	} else {
		conf, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) || errors.Is(err, fs.ErrNotExist) {
			return nil, ErrAbsent
		}
	}
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return New(conf, cfg)
}

// New makes a Client of a configuration that was read already.
func New(conf *rest.Config, cfg Config) (*Client, error) {
	if cfg.Services == "" {
		cfg.Services = ServicesNamespace
	}
	if len(validation.IsDNS1123Label(cfg.Services)) > 0 {
		return nil, fmt.Errorf("kubernetes: %q is no name of a namespace", cfg.Services)
	}
	if cfg.LeaseTerm == 0 {
		cfg.LeaseTerm = defaultLeaseTerm
	}
	if cfg.LeaseTerm < minLeaseTerm {
		return nil, fmt.Errorf("kubernetes: a Lease of %s is too short; %s is the least", cfg.LeaseTerm, minLeaseTerm)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	conf = rest.CopyConfig(conf)
	conf.UserAgent = ours
	conf.Timeout = streamTimeout
	conf.QPS, conf.Burst = perSecond, burst
	conf.WarningHandler = rest.NoWarnings{}
	conf.Wrap(func(next http.RoundTripper) http.RoundTripper { return impatient{next} })
	client, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	long := rest.CopyConfig(conf)
	long.AcceptContentTypes, long.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	lists, err := kubernetes.NewForConfig(long)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	meta, err := metadata.NewForConfig(conf)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	dyn, err := dynamic.NewForConfig(conf)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return &Client{cfg: cfg, kube: client, lists: lists, metadata: meta, dynamic: dyn, now: cfg.Now, changing: make(chan struct{}, 1)}, nil
}

// impatient shortens the wait that an answer of the API server, or of a proxy before it, asks for: client-go waits as long as
// it is told, and a watch has no other end.
type impatient struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	const header = "Retry-After"
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if seconds, err := strconv.Atoi(resp.Header.Get(header)); err == nil && seconds > int(longestWait/time.Second) {
		resp.Header.Set(header, strconv.Itoa(int(longestWait/time.Second)))
	}
	return resp, nil
}

// logging makes client-go log to our logger.
func (c *Client) logging(ctx context.Context) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(c.cfg.Logger.Handler()))
}

// call is the context of one request.
func (c *Client) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.logging(ctx), callTimeout)
}

// failed words an error of the API server, and tells ErrDenied from what may pass.
func failed(what string, err error) error {
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("kubernetes: %s: %w: %w", what, ErrDenied, err)
	}
	return fmt.Errorf("kubernetes: %s: %w", what, err)
}

// SystemUID implements Interface.
func (c *Client) SystemUID(ctx context.Context) (string, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	ns, err := c.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", failed("namespace kube-system", err)
	}
	return string(ns.UID), nil
}
