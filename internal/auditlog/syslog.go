package auditlog

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

const (
	// syslogTimeout bounds the dialling of a syslog, with the look-up of its name, and each line that it is sent.
	syslogTimeout = 5 * time.Second
	// syslogPriority is authpriv.info.
	syslogPriority = 10<<3 | 6
	syslogTag      = "oscarfed-audit"
)

// Syslog sends lines in the form of log/syslog, which would wait for ever for a syslog that does not read. It
// connects when the first line is sent, and anew when the connection was lost. It is not safe for concurrent use.
type Syslog struct {
	address  string
	networks []string
	dial     func(network, address string, timeout time.Duration) (net.Conn, error)
	// conn is nil before the first line, and after an error.
	conn net.Conn
}

// NewSyslog is a syslog at an address of the first network, else of the next. Nothing is connected yet.
func NewSyslog(address string, networks ...string) *Syslog {
	return &Syslog{address: address, networks: networks, dial: net.DialTimeout}
}

// Write sends one line. After an error nothing of it may be there, or a part.
func (s *Syslog) Write(text []byte) (int, error) {
	if s.conn != nil {
		err := s.send(text)
		if err == nil {
			return len(text), nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err // it hangs, and would on a new connection
		}
	}
	if err := s.connect(); err != nil {
		return 0, err
	}
	if err := s.send(text); err != nil {
		return 0, err
	}
	return len(text), nil
}

func (s *Syslog) connect() error {
	var problems []error
	for _, network := range s.networks {
		conn, err := s.dial(network, s.address, syslogTimeout)
		if err == nil {
			s.conn = conn
			return nil
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// send writes to the connection, which is given up after an error.
func (s *Syslog) send(text []byte) error {
	now := time.Now()
	err := s.conn.SetWriteDeadline(now.Add(syslogTimeout))
	if err == nil {
		_, err = fmt.Fprintf(s.conn, "<%d>%s %s[%d]: %s\n", syslogPriority, s.origin(now), syslogTag, os.Getpid(), text)
	}
	if err != nil {
		err = errors.Join(err, s.Close())
	}
	return err
}

// origin is when and, beyond this machine, where a line was written.
func (s *Syslog) origin(now time.Time) string {
	if strings.HasPrefix(s.networks[0], "unix") {
		return now.Format(time.Stamp)
	}
	host, err := os.Hostname()
	if err != nil {
		host = s.conn.LocalAddr().String()
	}
	return now.Format(time.RFC3339) + " " + host
}

// Close ends the connection.
func (s *Syslog) Close() error {
	if s.conn == nil {
		return nil
	}
	conn := s.conn
	s.conn = nil
	return conn.Close()
}
