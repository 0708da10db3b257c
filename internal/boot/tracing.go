package boot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/internal/version"
)

// Tracing says where a daemon sends its traces.
type Tracing struct {
	Endpoint    string `name:"otlp-endpoint" placeholder:"URL" help:"Collector of traces (OpenTelemetry, OTLP over HTTP), as https://collector:4318; empty for no traces."`
	HeadersFile string `name:"otlp-headers-file" placeholder:"FILE" help:"File with headers that it wants, a line each: Authorization: Bearer TOKEN."`
	CAFile      string `name:"otlp-ca-file" placeholder:"FILE" help:"Authorities that its certificate is verified with."`
}

func (c Tracing) validate() error {
	if c.Endpoint == "" {
		return when(c.HeadersFile != "" || c.CAFile != "", "--otlp-headers-file and --otlp-ca-file need an --otlp-endpoint")
	}
	if _, err := tracing.Address(c.Endpoint); err != nil {
		return fmt.Errorf("--otlp-endpoint: %w; those go into --otlp-headers-file", err)
	}
	return nil
}

// open is nil when there is no collector. share is that of the requests that begin here.
func (c Tracing) open(ctx context.Context, share float64, service, instance string, log *slog.Logger) (*tracing.Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	header, err := readHeaders(c.HeadersFile)
	if err != nil {
		return nil, fmt.Errorf("--otlp-headers-file: %w", err)
	}
	roots, err := rootsOf(c.CAFile, log)
	if err != nil {
		return nil, fmt.Errorf("--otlp-ca-file: %w", err)
	}
	if instance == "" {
		instance, _ = os.Hostname() // without a name it has none
	}
	return tracing.Open(ctx, tracing.Config{
		Endpoint: c.Endpoint, Header: header, Transport: outbound.Follow(outbound.Transport(nil), roots), Share: share,
		Service: service, Version: version.Get().Version, Instance: instance, Logger: log,
	})
}

// readHeaders reads lines of a name, a colon and a value.
func readHeaders(file string) (http.Header, error) {
	header := http.Header{}
	if file == "" {
		return header, nil
	}
	text, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("a line is not like Authorization: Bearer TOKEN")
		}
		header.Set(name, value)
	}
	return header, lines.Err()
}
