package boot

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"

	"github.com/oscarfed/oscarfed/internal/auditlog"
)

// openAudit opens what the audit is exported to; nil for nothing.
func openAudit(file, to string) (*auditlog.Log, error) {
	if file == "" {
		return nil, nil
	}
	var also io.WriteCloser
	if to != "" {
		syslog, err := syslogAt(to)
		if err != nil {
			return nil, fmt.Errorf("--audit-syslog: %w", err)
		}
		also = syslog
	}
	out, err := auditlog.Open(file, also)
	if err != nil {
		return nil, fmt.Errorf("--audit-file: %w", err)
	}
	return out, nil
}

// syslogAt reads the address of a syslog. One that is down, or hangs, holds up neither the start nor the file.
func syslogAt(to string) (*auditlog.Syslog, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		return auditlog.NewSyslog(u.Path, "unixgram", "unix"), nil
	case (u.Scheme == "udp" || u.Scheme == "tcp") && u.Port() != "" && u.Path == "":
		return auditlog.NewSyslog(u.Host, u.Scheme), nil
	}
	return nil, fmt.Errorf("%q is not unix:///PATH, udp://HOST:PORT or tcp://HOST:PORT", to)
}

func closeAudit(l *auditlog.Log, log *slog.Logger) {
	if err := l.Close(); err != nil {
		log.Warn("the exported audit did not close cleanly", "error", err)
	}
}
