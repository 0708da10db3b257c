package boot

import (
	"fmt"
	"io"
	"log/slog"
	"log/syslog"
	"net/url"

	"github.com/oscarfed/oscarfed/internal/auditlog"
)

// openAudit opens what the audit is exported to; nil for nothing.
func openAudit(file, to string) (*auditlog.Log, error) {
	if file == "" {
		return nil, nil
	}
	var also io.Writer
	if to != "" {
		var err error
		if also, err = dialSyslog(to); err != nil {
			return nil, fmt.Errorf("--audit-syslog: %w", err)
		}
	}
	out, err := auditlog.Open(file, also)
	if err != nil {
		return nil, fmt.Errorf("--audit-file: %w", err)
	}
	return out, nil
}

// dialSyslog connects to a syslog; the writer connects anew when it was lost.
func dialSyslog(to string) (io.Writer, error) {
	const priority = syslog.LOG_AUTHPRIV | syslog.LOG_INFO
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		w, err := syslog.Dial("unixgram", u.Path, priority, "oscarfed-audit")
		if err != nil {
			w, err = syslog.Dial("unix", u.Path, priority, "oscarfed-audit")
		}
		return w, err
	case (u.Scheme == "udp" || u.Scheme == "tcp") && u.Port() != "" && u.Path == "":
		return syslog.Dial(u.Scheme, u.Host, priority, "oscarfed-audit")
	}
	return nil, fmt.Errorf("%q is not unix:///PATH, udp://HOST:PORT or tcp://HOST:PORT", to)
}

func closeAudit(l *auditlog.Log, log *slog.Logger) {
	if err := l.Close(); err != nil {
		log.Warn("the exported audit did not close cleanly", "error", err)
	}
}
