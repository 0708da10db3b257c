package boot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/gateway"
)

// gatewayCommand is the subcommand of oscar-controlplane.
const gatewayCommand = "etcd-gateway"

// passLife is of the certificates by which a gateway is a cluster to etcd.
const passLife = 15 * time.Minute

// Gateway is the configuration of oscar-controlplane etcd-gateway.
type Gateway struct {
	Listen        string   `default:"127.0.0.1:2379" placeholder:"ADDRESS" help:"Where clusters connect; what the control planes name in --etcd-advertise leads here."`
	TLSCertFile   string   `name:"tls-cert-file" required:"" placeholder:"FILE" help:"Certificate of the gateway, of an authority in the control planes' --etcd-ca-file."`
	TLSKeyFile    string   `name:"tls-key-file" required:"" placeholder:"FILE" help:"Its private key."`
	EtcdEndpoints []string `required:"" sep:"," placeholder:"URL" help:"Client URLs of etcd, all members."`
	EtcdCAFile    string   `name:"etcd-ca-file" placeholder:"FILE" help:"Authorities that etcd's certificates are verified with; default the system's."`
	EtcdAuthority string   `required:"" placeholder:"DIR" help:"Authority of etcd's users (oscarfed etcd setup makes it): it has signed the clusters' certificates, and signs those by which the gateway is each of them."`
	MetricsListen string   `default:"127.0.0.1:9466" placeholder:"ADDRESS" help:"Where Prometheus metrics are served; empty for nowhere."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c Gateway) Validate() error {
	problems := []error{when(!hostPort(c.Listen), "--listen is an address with a port, as :2379")}
	for _, endpoint := range c.EtcdEndpoints {
		problems = append(problems, when(!strings.HasPrefix(endpoint, "https://"),
			fmt.Sprintf("%s: users are told by client certificates, so every endpoint is https://", endpoint)))
	}
	return errors.Join(problems...)
}

func gatewayMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	const name = "oscar-controlplane " + gatewayCommand
	cfg, err := Load[Gateway](name, "The gateway by which clusters reach an external etcd: with limits for each, and no rights of its own.", args, stdout)
	return daemon(ctx, name, cfg.Log, err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return RunGateway(ctx, cfg, log, stdout)
	})
}

// RunGateway runs the gateway until ctx ends. It writes one line to out when it listens.
func RunGateway(ctx context.Context, cfg Gateway, log *slog.Logger, out io.Writer) error {
	return runGateway(ctx, cfg, newRegistry(), log, out)
}

func runGateway(ctx context.Context, cfg Gateway, registry *prometheus.Registry, log *slog.Logger, out io.Writer) error {
	authority, err := loadAuthority(cfg.EtcdAuthority, time.Now)
	if err != nil {
		return err
	}
	leaseKey, err := authority.Derive(leasePurpose)
	if err != nil {
		return err
	}
	certificate, err := pki.OpenFiles(cfg.TLSCertFile, cfg.TLSKeyFile, log)
	if err != nil {
		return fmt.Errorf("the gateway: %w", err)
	}
	if err := measureCertificate(registry, certificate); err != nil {
		return err
	}
	leased, refused, err := countRequests(registry)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("the gateway: %w", err)
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oscarfed_etcd_gateway_calls_total", Help: "Calls of clusters that the gateway has answered, by method and code.",
	}, []string{"method", "code"})
	gw := gateway.New(gateway.Config{
		Listener: listener, Certificate: certificate.GetCertificate, Clients: authority.Pool(),
		Etcd: store.Config{Endpoints: cfg.EtcdEndpoints, CAFile: cfg.EtcdCAFile},
		As: func(user string) func() (*tls.Certificate, error) {
			return authority.Client(user, passLife).Certificate
		},
		LeaseKey: leaseKey, OnLease: leased, OnRefusal: refused, Logger: log,
		OnCall: func(method string, code codes.Code) {
			calls.WithLabelValues(method[strings.LastIndexByte(method, '/')+1:], code.String()).Inc()
		},
	})
	if err := registerGateway(registry, gw, calls); err != nil {
		return errors.Join(err, listener.Close())
	}
	if _, err := fmt.Fprintf(out, "oscar-controlplane: etcd gateway on %s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return gw.Run(ctx) })
	g.Go(func() error { certificate.Watch(ctx, certificateInterval); return nil })
	if cfg.MetricsListen != "" {
		g.Go(func() error {
			return serveMetrics(ctx, cfg.MetricsListen, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), log)
		})
	}
	return g.Wait()
}

func registerGateway(registry prometheus.Registerer, gw *gateway.Gateway, calls prometheus.Collector) error {
	clusters := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_etcd_gateway_clusters", Help: "Clusters that are connected to the gateway.",
	}, func() float64 { n, _ := gw.Clusters(); return float64(n) })
	connections := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_etcd_gateway_connections", Help: "Their connections.",
	}, func() float64 { _, n := gw.Clusters(); return float64(n) })
	safe := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_etcd_gateway_open", Help: "1 while clusters are let in: etcd was reached, and asks who is calling.",
	}, func() float64 { return oneWhen(gw.Safe()) })
	reached := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_etcd_gateway_etcd_reached", Help: "1 when etcd answered the gateway's last question about rights; it asks every 3 seconds while a cluster is connected.",
	}, func() float64 { return oneWhen(gw.Reached()) })
	for _, c := range []prometheus.Collector{calls, clusters, connections, safe, reached} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

func oneWhen(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
