package enroll_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer stands for a control plane: it signs for whoever asks, unless a test answers.
type fakeServer struct {
	t         *testing.T
	authority *pki.Authority
	net       *wire.Network
	url       string
	endpoint  string

	mu    sync.Mutex
	uid   string
	asked []string
	// answer may answer a request instead, and says whether it has.
	answer func(w http.ResponseWriter, path string, nth int) bool
	// change is made to each answer that the fakeServer gives.
	change func(*v1.Enrolment)
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	d := &fakeServer{t: t, authority: newAuthority(t), net: wire.New(1), uid: "u1", endpoint: "https://127.0.0.1:2379"}
	l, err := d.net.Host("controlplane").Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: d, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.LoadOrCreate(t.TempDir(), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (d *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.URL.Path)
	if d.answer != nil && d.answer(w, r.URL.Path, len(d.asked)) {
		return
	}
	if r.URL.Path == "/system/join/challenge" {
		d.say(w, v1.JoinChallenge{Challenge: "challenge"})
		return
	}
	var in v1.Join // a renewal has the same names
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		d.t.Error(err)
	}
	req, err := pki.ParseRequest([]byte(in.CSR))
	if err != nil {
		d.t.Error(err)
		return
	}
	if name := map[string]string{"/system/join": "a", "/system/join/renew": "challenge"}[r.URL.Path]; req.Name != name {
		d.t.Errorf("%s has a request for %q", r.URL.Path, req.Name)
	}
	cert, err := d.authority.Sign(req.Key, pki.Subject{Name: "a." + d.uid, Life: 24 * time.Hour})
	if err != nil {
		d.t.Error(err)
	}
	out := v1.Enrolment{ClusterID: "a", ClusterUID: d.uid, Certificate: string(cert), EtcdCA: string(d.authority.CertPEM()), EtcdEndpoints: []string{d.endpoint}}
	if d.change != nil {
		d.change(&out)
	}
	d.say(w, out)
}

func (d *fakeServer) say(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		d.t.Error(err)
	}
}

// from now on the fakeServer answers so.
func (d *fakeServer) set(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
}

func (d *fakeServer) requests() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}

func no(w http.ResponseWriter, code string, status int) bool {
	w.Header().Set("Content-Type", v1.ProblemType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v1.Problem{Code: code, Detail: "no for the test"})
	return true
}

// says answers with a text. That the client may hang up before its end makes it no less of an answer.
func says(w http.ResponseWriter, text string) bool {
	_, _ = w.Write([]byte(text))
	return true
}

// clock is a machine's, which may be set back.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) setBack(d time.Duration) { c.ahead.Add(int64(-d)) }

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

// machine is where a syncer is.
type machine struct {
	*fakeServer
	dir   string
	clock *clock
	token string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{fakeServer: newFakeServer(t), dir: t.TempDir(), clock: &clock{}, token: "token"}
}

func (m *machine) open() *enroll.Enrolment {
	m.t.Helper()
	e, err := enroll.Open(m.config())
	if err != nil {
		m.t.Fatal(err)
	}
	return e
}

func (m *machine) config() enroll.Config {
	return enroll.Config{
		ClusterID: "a", ControlPlane: m.url, Dial: m.net.Host("syncer").DialContext, Dir: m.dir, Recipient: "age1", Now: m.clock.now,
		Token: func() (string, error) {
			if m.token == "" {
				return "", errors.New("no file")
			}
			return m.token, nil
		},
	}
}

func (m *machine) ensured() *enroll.Enrolment {
	m.t.Helper()
	e := m.open()
	if err := e.Ensure(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	return e
}

// run runs an enrolment until it ends by itself, and answers how.
func (m *machine) run(e *enroll.Enrolment) <-chan error {
	ctx, cancel := context.WithCancel(m.t.Context())
	out := make(chan error, 1)
	var done sync.WaitGroup
	done.Go(func() { out <- e.Run(ctx) })
	m.t.Cleanup(func() { cancel(); done.Wait() })
	return out
}

func (m *machine) eventually(what string, ok func() bool) {
	m.t.Helper()
	limit := time.After(48 * time.Hour)
	for !ok() {
		select {
		case <-time.After(time.Second):
		case <-limit:
			m.t.Fatalf("it never came true: %s", what)
		}
	}
}

// Whatever a control plane answers, nothing is kept that could not be used; a good
// answer later is.
func TestAnswersThatAreNotUsed(t *testing.T) {
	other, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	foreign := newAuthority(t)
	tests := map[string]func(*v1.Enrolment){
		"another cluster":      func(e *v1.Enrolment) { e.ClusterID = "b" },
		"no registration":      func(e *v1.Enrolment) { e.ClusterUID = "" },
		"another name":         func(e *v1.Enrolment) { e.ClusterUID = "u2" },
		"no certificate":       func(e *v1.Enrolment) { e.Certificate = "" },
		"two certificates":     func(e *v1.Enrolment) { e.Certificate += e.Certificate },
		"another key":          func(e *v1.Enrolment) { e.Certificate = signed(t, foreign, other.Public()) },
		"one that is over":     func(e *v1.Enrolment) { e.Certificate = over(t, foreign, e.Certificate) },
		"no CA":                func(e *v1.Enrolment) { e.EtcdCA = "hello" },
		"no endpoint":          func(e *v1.Enrolment) { e.EtcdEndpoints = nil },
		"an endpoint in clear": func(e *v1.Enrolment) { e.EtcdEndpoints = append(e.EtcdEndpoints, "http://127.0.0.1:2379") },
		"a file for endpoint":  func(e *v1.Enrolment) { e.EtcdEndpoints = []string{"unix:///x"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				m := newMachine(t)
				m.change = change
				e := m.open()
				done := make(chan error, 1)
				go func() { done <- e.Ensure(t.Context()) }()
				m.eventually("it is asked again", func() bool { return m.requests() > 2 })
				if _, err := os.Stat(filepath.Join(m.dir, "enrolment.json")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("something was kept: %v", err)
				}
				if _, err := e.Certificate(); err == nil {
					t.Error("there is a certificate")
				}
				m.set(func() { m.change = nil })
				if err := <-done; err != nil {
					t.Error(err)
				}
				if cert, err := e.Certificate(); err != nil || cert.Leaf.Subject.CommonName != "a.u1" {
					t.Errorf("%v %v", cert, err)
				}
			})
		})
	}
}

func signed(t *testing.T, a *pki.Authority, key any) string {
	t.Helper()
	cert, err := a.Sign(key, pki.Subject{Name: "a.u1", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return string(cert)
}

// over is a certificate for the same key that ended when it was signed.
func over(t *testing.T, a *pki.Authority, certificate string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(certificate))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Sign(leaf.PublicKey, pki.Subject{Name: "a.u1", Life: -time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return string(cert)
}

// Only the control plane's own word is a no.
func TestWhatIsTriedAgain(t *testing.T) {
	tests := []struct {
		name    string
		answer  func(w http.ResponseWriter) bool
		refused bool
	}{
		{"forbidden", func(w http.ResponseWriter) bool { return no(w, v1.CodeForbidden, 403) }, true},
		{"conflict", func(w http.ResponseWriter) bool { return no(w, v1.CodeConflict, 409) }, true},
		{"failed precondition", func(w http.ResponseWriter) bool { return no(w, v1.CodeFailedPrecondition, 422) }, true},
		{"unavailable", func(w http.ResponseWriter) bool { return no(w, v1.CodeUnavailable, 503) }, false},
		{"exhausted", func(w http.ResponseWriter) bool { return no(w, v1.CodeExhausted, 429) }, false},
		{"unknown outcome", func(w http.ResponseWriter) bool { return no(w, v1.CodeUnknownOutcome, 504) }, false},
		{"internal", func(w http.ResponseWriter) bool { return no(w, v1.CodeInternal, 500) }, false},
		{"a proxy's forbidden", func(w http.ResponseWriter) bool { http.Error(w, "<html>", http.StatusForbidden); return true }, false},
		{"elsewhere", func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "https://elsewhere.example.org/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, false},
		{"nonsense", func(w http.ResponseWriter) bool { return says(w, "nonsense") }, false},
		{"without end", func(w http.ResponseWriter) bool { return says(w, strings.Repeat(" ", 300<<10)) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				m := newMachine(t)
				m.answer = func(w http.ResponseWriter, _ string, nth int) bool { return nth < 3 && tt.answer(w) }
				err := m.open().Ensure(t.Context())
				if tt.refused != (err != nil) || tt.refused && m.requests() != 1 || !tt.refused && m.requests() != 3 {
					t.Errorf("after %d requests: %v", m.requests(), err)
				}
			})
		})
	}
}

// A start finds what another one left: the key alone, an answer, or a damaged one.
func TestWhatAnEarlierStartLeft(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		m.open()
		key := read(t, m.dir, "client.key")
		first := m.ensured()
		if read(t, m.dir, "client.key") != key {
			t.Error("the key of before was not used")
		}
		asked := m.requests()
		again := m.ensured() // the token is still there
		if m.requests() != asked || again.ClusterUID() != first.ClusterUID() {
			t.Error("it has joined again")
		}
		if got, err := os.Stat(filepath.Join(m.dir, "enrolment.json")); err != nil || got.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", got, err)
		}
		if strings.Contains(read(t, m.dir, "enrolment.json"), `"token":"token"`) {
			t.Error("the token was kept")
		}

		state := filepath.Join(m.dir, "enrolment.json")
		for name, text := range map[string]string{"damaged": "{", "empty": ""} {
			if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			m.token = ""
			if err := m.open().Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "no file") {
				t.Errorf("%s, without a token: %v", name, err)
			}
			m.token = "another " + name
			m.ensured()
		}

		if err := os.Chmod(filepath.Join(m.dir, "client.key"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := enroll.Open(m.config()); err == nil {
			t.Error("a key that everybody can read was used")
		}
	})
}

// The second syncer of a machine, started with the command that cluster join prints, took over the
// directory of the first, which could not start again.
func TestADirectoryIsOfOneCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		m := newMachine(t)
		m.ensured()
		had, asked := read(t, m.dir, "enrolment.json"), m.requests()
		other := m.config()
		other.ClusterID = "b"
		if _, err := enroll.Open(other); err == nil || !strings.Contains(err.Error(), `is of cluster "a"`) || !strings.Contains(err.Error(), "--identity-file") {
			t.Errorf("another cluster's syncer: %v", err)
		}
		if read(t, m.dir, "enrolment.json") != had || m.requests() != asked {
			t.Error("something was done")
		}
		other.TakeOver = true
		if _, err := enroll.Open(other); err != nil {
			t.Errorf("one that takes its place: %v", err)
		}
	})
}

func TestCheckURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://api.example.org:8080": true, "https://api.example.org/oscarfed": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true,
		"http://localhost:8080": true, "http://api.example.org": false, "http://10.0.0.1": false, "api.example.org": false, "ftp://api.example.org": false,
		"https://user:word@api.example.org": false, "https://api.example.org?x=y": false, "https://": false, "": false,
	} {
		err := enroll.CheckURL(text)
		if ok != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "word") {
			t.Errorf("%q: the error tells a password: %v", text, err)
		}
	}
}
