package auditlog

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A syslog that took the connection and did not read held up the file, and the end of the process.
func TestASyslogThatHangsHoldsUpNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		dialled, reads := 0, true
		lines := make(chan string, 2)
		syslog := NewSyslog("log:514", "tcp")
		syslog.dial = func(string, string, time.Duration) (net.Conn, error) {
			dialled++
			ours, theirs := net.Pipe()
			if reads { // one line
				go func() {
					line, _ := bufio.NewReader(theirs).ReadString('\n')
					lines <- line
				}()
			}
			return ours, nil
		}
		l, err := Open(path, syslog)
		if err != nil {
			t.Fatal(err)
		}
		appendAll(t, l, entries(0, 1))
		if err := l.Append(entries(1, 4)); !errors.Is(err, os.ErrDeadlineExceeded) || dialled != 1 {
			t.Errorf("of %d connections that are not read: %v", dialled, err)
		}
		reads = false
		if err := l.Append(entries(4, 6)); !errors.Is(err, os.ErrDeadlineExceeded) || dialled != 2 {
			t.Errorf("of %d connections that are not read: %v", dialled, err)
		}
		reads = true
		appendAll(t, l, entries(6, 7))
		if v, err := verify(t, content(t, path)); err != nil || v.Lines != 7 {
			t.Errorf("the file: %+v %v", v, err)
		}
		for _, want := range []string{`"seq":1`, `"seq":7`} {
			if line := <-lines; !strings.Contains(line, want) {
				t.Errorf("it reads %q", line)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Each line is in the form of log/syslog, and one for which the connection was lost goes by another.
func TestASyslogIsFoundAgain(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	syslog := NewSyslog(server.Addr().String(), "tcp")
	lines := make(chan string)
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(c).ReadString('\n')
			_ = c.Close()
			lines <- line
		}
	}()
	for received := 0; received < 3; {
		if _, err := syslog.Write([]byte("text")); err != nil {
			t.Fatal(err)
		}
		select {
		case line := <-lines:
			received++
			host, _ := os.Hostname()
			if !strings.HasPrefix(line, "<86>") || !strings.Contains(line, " "+host+" oscarfed-audit[") || !strings.HasSuffix(line, "]: text\n") {
				t.Errorf("%q", line)
			}
		case <-time.After(time.Millisecond): // it went to the connection that was just lost
		}
	}
	if err := syslog.Close(); err != nil {
		t.Error(err)
	}
}
