package boot

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheEndOfTheServersCertificateIsMeasured: also of the one that replaces it.
func TestTheEndOfTheServersCertificateIsMeasured(t *testing.T) {
	ca, dir := authority(t), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	issue := func(life time.Duration) {
		t.Helper()
		cert, key, err := ca.Issue(pki.Subject{Hosts: []string{"127.0.0.1"}, Life: life})
		if err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string][]byte{certFile: cert, keyFile: key} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	issue(time.Hour)
	files, err := pki.OpenFiles(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := measureCertificate(registry, files); err != nil {
		t.Fatal(err)
	}
	left := func() time.Duration {
		return time.Until(time.Unix(int64(gauge(t, registry, "oscarfed_server_certificate_end_seconds")), 0))
	}
	if got := left(); got < 50*time.Minute || got > time.Hour {
		t.Errorf("it ends in %s", got)
	}
	if got := gauge(t, registry, "oscarfed_server_certificate_life_seconds"); got < 3600 || got > 5*3600 {
		t.Errorf("its life is %g s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); files.Watch(ctx, time.Millisecond) }()
	defer func() { cancel(); <-done }()
	issue(48 * time.Hour)
	await.Until(t, "the new one is measured", func() bool { return left() > 40*time.Hour })
}

// Plain HTTP has no certificate that could end.
func TestWithoutACertificateNothingIsMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := measureCertificate(registry, nil); err != nil {
		t.Fatal(err)
	}
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("%v %v", families, err)
	}
}

// TestAControlPlaneMeasuresItsCertificate: the metric is one of the daemon.
func TestAControlPlaneMeasuresItsCertificate(t *testing.T) {
	d := newDaemons(t)
	d.controlPlane()
	measured := false
	err := d.admin.Support(t.Context(), func(name string, content io.Reader) error {
		text, err := io.ReadAll(content)
		measured = measured || name == "metrics.txt" && strings.Contains(string(text), "\noscarfed_server_certificate_end_seconds ")
		return err
	})
	if err != nil || !measured {
		t.Errorf("measured %t, %v", measured, err)
	}
}

// gauge is the one value of a metric.
func gauge(t *testing.T, registry prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
