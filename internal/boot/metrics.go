package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/internal/pki"
)

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// serveMetrics serves Prometheus metrics on a listener of their own: they need no
// credentials, so they are not part of the API.
func serveMetrics(ctx context.Context, address string, handler http.Handler, log *slog.Logger) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	return server.Serve(ctx, server.ServeConfig{Listen: l, Handler: mux, Logger: log, Drain: time.Second})
}

// measureCertificate registers when the certificate of a server ends. Nothing is told of plain HTTP.
func measureCertificate(registry prometheus.Registerer, certificate *pki.Files) error {
	if certificate == nil {
		return nil
	}
	end := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_server_certificate_end_seconds", Help: "When the certificate ends that this process serves with, of the API or the gateway, in Unix time.",
	}, func() float64 {
		_, ends := certificate.Times()
		return float64(ends.Unix())
	})
	life := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_server_certificate_life_seconds", Help: "How long that certificate is valid, from when it begins.",
	}, func() float64 {
		begins, ends := certificate.Times()
		return ends.Sub(begins).Seconds()
	})
	if err := errors.Join(registry.Register(end), registry.Register(life)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// measure registers what each daemon tells of itself: what time it believes it is, and, with the
// option for its connections to etcd, how long each try of a request took.
func measure(registry prometheus.Registerer, now func() time.Time) (grpc.DialOption, error) {
	clock := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_clock_seconds", Help: "What time this process believes it is, in Unix seconds.",
	}, func() float64 { return float64(now().UnixMilli()) / 1000 })
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "oscarfed_etcd_request_duration_seconds", Help: "Time that a request to etcd took to be answered, or to be given up, by method of etcd.",
		Buckets: prometheus.ExponentialBuckets(.001, 4, 8),
	}, []string{"method"})
	if err := errors.Join(registry.Register(clock), registry.Register(took)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		began := time.Now()
		err := invoke(ctx, method, req, reply, cc, opts...)
		took.WithLabelValues(path.Base(method)).Observe(time.Since(began).Seconds())
		return err
	}), nil
}
