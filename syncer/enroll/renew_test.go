package enroll_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/test/await"
)

// It is renewed by this machine's own clock, whatever the certificate's times are.
func TestWhenItIsRenewed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		e := m.ensured()
		asked := m.requests()
		serial := func() string {
			cert, err := e.Certificate()
			if err != nil {
				t.Fatal(err)
			}
			return cert.Leaf.SerialNumber.String()
		}
		before := serial()
		m.run(e)
		pass(15 * time.Hour)
		if m.requests() != asked {
			t.Errorf("it was renewed too early")
		}
		pass(65 * time.Minute)
		m.eventually("it is renewed", func() bool { return serial() != before })
		asked = m.requests()

		// The clock is set back by a year: too early does no harm.
		before = serial()
		m.clock.setBack(365 * 24 * time.Hour)
		m.eventually("it is renewed again", func() bool { return serial() != before })
		if m.requests() == asked {
			t.Error("nobody was asked")
		}
	})
}

// An etcd that was restored on another machine has another authority. It is learnt at once, and not
// when the certificate is old; and the API is not asked again and again when that does not help.
func TestADistrustedCertificateIsRenewedAtOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		e := m.ensured()
		ended, asked := m.run(e), m.requests()
		// The control plane has the same authority: etcd is at fault, or somebody else answers there.
		failing, stop := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() {
			for failing.Err() == nil {
				e.Distrusted(errors.New("of another authority"))
				pass(5 * time.Second)
			}
		})
		pass(2 * time.Second)
		if got := m.requests() - asked; got != 2 { // a challenge, and the renewal
			t.Errorf("within 2 s the API was asked %d times", got)
		}
		pass(time.Hour)
		if got := (m.requests() - asked) / 2; got < 10 || got > 40 {
			t.Errorf("within an hour it was renewed %d times", got)
		}
		m.set(func() { m.change = func(e *v1.Enrolment) { e.EtcdCA += "\n" } })
		if err := <-ended; !errors.Is(err, enroll.ErrAccessChanged) {
			t.Errorf("it ended with %v", err)
		}
		stop()
		client.Wait()
	})
}

// Another address of etcd, another authority, and another registration end what was
// begun with the former.
func TestMoved(t *testing.T) {
	for name, change := range map[string]func(m *machine){
		"endpoint": func(m *machine) { m.endpoint = "https://127.0.0.2:2379" },
		"CA":       func(m *machine) { m.change = func(e *v1.Enrolment) { e.EtcdCA += "\n" } },
		"registration": func(m *machine) {
			m.uid = "u2"
			m.answer = func(w http.ResponseWriter, path string, _ int) bool {
				return path == "/system/join/renew" && no(w, v1.CodeForbidden, 403)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				m := newMachine(t)
				e := m.ensured()
				m.set(func() { change(m) })
				m.token = "another" // taken when the renewal is refused
				pass(17 * time.Hour)
				if err := <-m.run(e); !errors.Is(err, enroll.ErrAccessChanged) {
					t.Errorf("it ended with %v", err)
				}
				if m.token = ""; m.open().ClusterUID() != m.uid {
					t.Error("it was not kept")
				}
			})
		})
	}
}

// Who is refused goes on with what he has, and looks again.
func TestARefusedRenewal(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		e := m.ensured()
		m.token = ""
		m.set(func() {
			m.answer = func(w http.ResponseWriter, path string, _ int) bool {
				return path == "/system/join/renew" && no(w, v1.CodeForbidden, 403)
			}
		})
		pass(20 * time.Hour)
		m.run(e)
		asked := m.requests()
		m.eventually("it looks again", func() bool { return m.requests() > asked+6 })
		if _, err := e.Certificate(); err != nil {
			t.Error(err)
		}
		before, err := e.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		m.set(func() { m.answer = nil })
		m.eventually("it is renewed", func() bool {
			now, err := e.Certificate()
			return err == nil && now.Leaf.SerialNumber.Cmp(before.Leaf.SerialNumber) != 0
		})
	})
}

// On a disk that is full, or read only, certificates are renewed all the same, as long as the process lives. Another etcd is
// not gone to before it is kept where that is: what begins anew reads it there.
func TestARenewalNeedsNoDisk(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		e := m.ensured()
		ended := m.run(e)
		kept := filepath.Join(m.dir, "enrolment.json")
		before := read(t, m.dir, "enrolment.json")
		if err := errors.Join(os.Remove(kept), os.MkdirAll(filepath.Join(kept, "in the way"), 0o700)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			pass(24 * time.Hour)
			cert, err := e.Certificate()
			if err != nil {
				t.Fatal(err)
			}
			if !cert.Leaf.NotAfter.After(time.Now()) {
				t.Errorf("it ended at %s", cert.Leaf.NotAfter)
			}
		}
		m.set(func() { m.endpoint = "https://127.0.0.2:2379" })
		pass(24 * time.Hour)
		select {
		case err := <-ended:
			t.Errorf("it ended with %v", err)
		default:
		}
		if err := errors.Join(os.RemoveAll(kept), os.WriteFile(kept, []byte(before), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, enroll.ErrAccessChanged) {
			t.Errorf("it ended with %v", err)
		}
		if _, endpoints := m.open().Etcd(); !slices.Equal(endpoints, []string{m.endpoint}) {
			t.Errorf("%v is kept", endpoints)
		}
	})
}

// A certificate that has ended is renewed before anything begins, or nothing does.
func TestEnded(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		m.ensured()
		pass(30 * 24 * time.Hour)
		asked := m.requests()
		m.token = ""
		m.ensured()
		if m.requests() != asked+2 {
			t.Error("it was not renewed")
		}
		pass(30 * 24 * time.Hour)
		m.set(func() {
			m.answer = func(w http.ResponseWriter, _ string, _ int) bool { return no(w, v1.CodeFailedPrecondition, 422) }
		})
		if err := m.open().Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "no for the test") {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		m.set(func() {
			m.answer = func(w http.ResponseWriter, _ string, _ int) bool { cancel(); return no(w, v1.CodeUnavailable, 503) }
		})
		if err := m.open().Ensure(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
