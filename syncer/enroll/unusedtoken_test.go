package enroll_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/test/await"
)

// A start with a valid certificate and a token that was not used yet does not need the API: etcd
// may be well. The token is used when the API is back.
func TestAValidCertificateDoesNotWaitForAToken(t *testing.T) {
	for name, away := range map[string]func(w http.ResponseWriter) bool{
		"it answers 503": func(w http.ResponseWriter) bool { return no(w, v1.CodeUnavailable, 503) },
		"it hangs up":    func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				m := newMachine(t)
				m.ensured()
				m.token = "another"
				m.set(func() { m.answer = func(w http.ResponseWriter, _ string, _ int) bool { return away(w) } })
				hang, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
				defer cancel()
				e := m.open()
				if err := e.Ensure(hang); err != nil {
					t.Fatal(err)
				}
				ended, asked := m.run(e), m.requests()
				m.eventually("it is tried again", func() bool { return m.requests() > asked+3 })
				if e.ClusterUID() != "u1" {
					t.Errorf("it is %q", e.ClusterUID())
				}
				m.set(func() { m.answer, m.uid = nil, "u2" })
				if err := <-ended; !errors.Is(err, enroll.ErrAccessChanged) {
					t.Errorf("it ended with %v", err)
				}
				asked = m.requests()
				if m.ensured().ClusterUID() != "u2" || m.requests() != asked {
					t.Error("the token was not used, or twice")
				}
			})
		})
	}
}

// A cluster joins without the identity of an OSCAR that does not give it in time, also where the join may take no longer
// than one request.
func TestAnOSCARThatHangsKeepsNoTokenFromItsUse(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		m.ensured()
		m.token = "another"
		m.set(func() { m.uid = "u2" })
		hanging := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		cfg := m.config()
		cfg.OscarID, cfg.KubeSystemUID = hanging, hanging
		e, err := enroll.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := e.Ensure(t.Context()); err != nil || e.ClusterUID() != "u2" {
			t.Errorf("it is %q, %v", e.ClusterUID(), err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// While the API answers no join, the certificate is renewed all the same.
func TestATokenThatIsPutOffDelaysNoRenewal(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		before, err := m.ensured().Certificate()
		if err != nil {
			t.Fatal(err)
		}
		m.token = "another"
		m.set(func() {
			m.answer = func(w http.ResponseWriter, path string, _ int) bool {
				return path == "/system/join" && no(w, v1.CodeInternal, 500)
			}
		})
		hang, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
		defer cancel()
		e := m.open()
		if err := e.Ensure(hang); err != nil {
			t.Fatal(err)
		}
		m.run(e)
		m.eventually("it is renewed", func() bool {
			now, err := e.Certificate()
			return err == nil && now.Leaf.SerialNumber.Cmp(before.Leaf.SerialNumber) != 0
		})
	})
}

// A token that is over is never good again. What else stands in the way of a join may end.
func TestARefusedTokenIsNotTriedAtEachStart(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		m.ensured()
		code := v1.CodeConflict
		m.set(func() {
			m.answer = func(w http.ResponseWriter, path string, _ int) bool {
				return path == "/system/join" && no(w, code, 403)
			}
		})
		m.token = "another"
		tried := func() bool {
			asked := m.requests()
			m.ensured()
			return m.requests() > asked
		}
		for range 2 {
			if !tried() {
				t.Error("a token that is in conflict was not tried")
			}
		}
		m.set(func() { code = v1.CodeForbidden })
		if !tried() {
			t.Error("it was not tried")
		}
		if tried() {
			t.Error("it was tried again")
		}
		pass(25 * time.Hour)
		m.ensured() // the certificate is renewed
		if tried() {
			t.Error("it was tried again after a renewal")
		}
		m.token = "a third one"
		if !tried() {
			t.Error("another one was not tried")
		}
	})
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
