package boot

import (
	"bufio"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/auditlog"
)

// readLine reads one message of a syslog, whatever it is sent over.
func readLine(t *testing.T, c net.Conn) string {
	t.Helper()
	buffer := make([]byte, 4096)
	n, err := bufio.NewReader(c).Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

func TestTheAuditGoesToASyslog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	unix, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close() }()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = udp.Close() }()
	for to, from := range map[string]net.Conn{"unix://" + socket: unix, "udp://" + udp.LocalAddr().String(): udp} {
		l, err := openAudit(filepath.Join(t.TempDir(), "audit.jsonl"), to)
		if err != nil {
			t.Fatal(to, err)
		}
		if err := l.Append([]auditlog.Entry{{ID: "one", Revision: 3, Record: []byte(`{"action":"create"}`)}}); err != nil {
			t.Error(to, err)
		}
		if got := readLine(t, from); !strings.Contains(got, "oscarfed-audit") || !strings.Contains(got, `"action":"create"`) || !strings.Contains(got, l.Head().Hash) {
			t.Errorf("%s got %q", to, got)
		}
		closeAudit(l, slog.New(slog.DiscardHandler))
	}
	for _, to := range []string{"ftp://x:1", "udp://x", "unix://host/path", ":"} {
		if _, err := openAudit(filepath.Join(t.TempDir(), "audit.jsonl"), to); err == nil {
			t.Errorf("%s is taken for a syslog", to)
		}
	}
}

// A control plane whose syslog was down did not start.
func TestASyslogThatIsDownLosesItsLinesAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"tcp://" + closed, "unix://" + filepath.Join(t.TempDir(), "nobody")} {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		out, err := openAudit(file, to)
		if err != nil {
			t.Fatal(to, err)
		}
		if err := out.Append([]auditlog.Entry{{ID: "one", Revision: 3, Record: []byte(`{"action":"create"}`)}}); err == nil {
			t.Errorf("%s: nobody is told that it is down", to)
		}
		closeAudit(out, slog.New(slog.DiscardHandler))
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"action":"create"`) {
			t.Errorf("%s: the file has %q, %v", to, text, err)
		}
	}
}
