package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// impatient gives up soon.
func impatient(cfg store.Config) store.Config {
	cfg.RequestTimeout, cfg.Deadline = 200*time.Millisecond, 600*time.Millisecond
	return cfg
}

func TestOpenWithoutEtcd(t *testing.T) {
	cfg := impatient(store.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: storetest.Logger(t)})
	if _, err := store.Open(t.Context(), cfg); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
}

func TestOpenReportsAllProblems(t *testing.T) {
	_, err := store.Open(t.Context(), store.Config{CertFile: "x"})
	if err == nil || !strings.Contains(err.Error(), "endpoint") || !strings.Contains(err.Error(), "key") {
		t.Error(err)
	}
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]store.Config{
		"absent CA":     {CAFile: filepath.Join(dir, "absent")},
		"junk CA":       {CAFile: junk},
		"absent client": {CertFile: filepath.Join(dir, "absent"), KeyFile: junk},
		"junk client":   {CertFile: junk, KeyFile: junk},
	} {
		cfg.Endpoints = []string{"https://127.0.0.1:1"}
		if _, err := store.Open(t.Context(), cfg); err == nil || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One member of three may be away.
func TestOpenWithAMemberAway(t *testing.T) {
	s := storetest.Open(t, store.Config{Endpoints: []string{storetest.Etcd(t), "http://127.0.0.1:1"}, RequestTimeout: 500 * time.Millisecond})
	put(t, s, "/t/a", 1)
}

func TestClientCertificates(t *testing.T) {
	authority, stranger := storetest.NewAuthority(t), storetest.NewAuthority(t)
	cert, key := authority.Issue("server")
	server := storetest.Start(t, embedded.Config{CertFile: cert, KeyFile: key, CAFile: authority.CAFile})
	if !strings.HasPrefix(server.Endpoint(), "https://") {
		t.Errorf("endpoint %s", server.Endpoint())
	}
	proxy := storetest.NewProxy(t, server.Endpoint())
	cert, key = authority.Issue("client")
	good := store.Config{Endpoints: []string{proxy.Endpoint()}, CertFile: cert, KeyFile: key, CAFile: authority.CAFile}
	s := storetest.Open(t, impatient(good))
	put(t, s, "/t/a", 1)

	for name, change := range map[string]func(*store.Config){
		"no certificate":    func(c *store.Config) { c.CertFile, c.KeyFile = "", "" },
		"of another":        func(c *store.Config) { c.CertFile, c.KeyFile = stranger.Issue("client") },
		"server of another": func(c *store.Config) { c.CAFile = stranger.CAFile },
		"no TLS": func(c *store.Config) {
			*c = impatient(store.Config{Endpoints: []string{"http" + strings.TrimPrefix(proxy.Endpoint(), "https")}})
		},
	} {
		cfg := impatient(good)
		cfg.Logger = storetest.Logger(t)
		change(&cfg)
		if _, err := store.Open(t.Context(), cfg); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// The files are read for each new connection: a wrong one is no longer let in,
	// a renewed one is.
	strangeCert, err := os.ReadFile(first(stranger.Issue("client")))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, strangeCert, 0o600); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if _, err := s.Get(t.Context(), "/t/a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with a certificate and a key that do not belong together: %v", err)
	}
	authority.Issue("client")
	until(t, func() bool {
		_, err := s.Get(t.Context(), "/t/a")
		return err == nil
	})
}

func first(a, _ string) string { return a }

// A store that runs follows its CA file. It never believes a server that the authorities of the moment do not vouch
// for, by this name and today.
func TestAnotherAuthorityOfEtcdIsTakenOver(t *testing.T) {
	newAuthority := func(now func() time.Time) *pki.Authority {
		a, err := pki.LoadOrCreate(t.TempDir(), "test", now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	one, two, stranger := newAuthority(time.Now), newAuthority(time.Now), newAuthority(time.Now)
	old := newAuthority(func() time.Time { return time.Now().Add(-48 * time.Hour) })
	dir := t.TempDir()
	file := func(name string, parts ...[]byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := atomicfile.Write(path, slices.Concat(parts...), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	serve := func(by *pki.Authority, host string) string {
		t.Helper()
		cert, key, err := by.Issue(pki.Subject{Hosts: []string{host}, Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return file("server.pem", cert, key)
	}
	const here = "127.0.0.1"
	pem, clients, ca := serve(one, here), file("clients.crt", one.CertPEM()), file("ca.crt", one.CertPEM())
	server := storetest.Start(t, embedded.Config{CertFile: pem, KeyFile: pem, CAFile: clients})
	proxy := storetest.NewProxy(t, server.Endpoint())
	var distrusted atomic.Int64
	s := storetest.Open(t, store.Config{
		Endpoints: []string{proxy.Endpoint()}, CAFile: ca, Certificate: one.Client("client", time.Hour).Certificate,
		OnDistrust: func(error) { distrusted.Add(1) },
	})
	put(t, s, "/t/a", 1)
	for _, step := range []struct {
		name    string
		roots   []*pki.Authority
		by      *pki.Authority
		host    string
		trusted bool
	}{
		{"of one of two authorities", []*pki.Authority{one, two}, two, here, true},
		{"of a stranger", []*pki.Authority{one, two}, stranger, here, false},
		{"of another server", []*pki.Authority{one, two}, two, "elsewhere.example.org", false},
		{"of another address", []*pki.Authority{one, two}, two, "127.0.0.2", false},
		{"that is over", []*pki.Authority{one, old}, old, here, false},
		{"of an authority that is gone", []*pki.Authority{two}, one, here, false},
		{"of the one that stayed", []*pki.Authority{two}, two, here, true},
	} {
		var bundle []byte
		for _, a := range step.roots {
			bundle = append(bundle, a.CertPEM()...)
		}
		file("ca.crt", bundle)
		serve(step.by, step.host)
		proxy.Cut()
		before := distrusted.Load()
		read := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Get(ctx, "/t/a")
			return err == nil
		}
		answered := false
		until(t, func() bool {
			answered = answered || read()
			return answered || distrusted.Load() > before
		})
		if !step.trusted && answered {
			t.Errorf("a server is believed by a certificate %s", step.name)
		}
		if step.trusted {
			until(t, read)
		}
	}
}

// etcd's client says nothing of why it does not connect.
func TestItIsToldThatOneSideIsNotTrusted(t *testing.T) {
	authority, stranger := storetest.NewAuthority(t), storetest.NewAuthority(t)
	cert, key := authority.Issue("server")
	server := storetest.Start(t, embedded.Config{CertFile: cert, KeyFile: key, CAFile: authority.CAFile})
	for name, tt := range map[string]struct {
		change func(*store.Config)
		want   string // of the error; empty for none
	}{
		"trusted":       {func(c *store.Config) { c.RequestTimeout, c.Deadline = 0, 0 }, ""},
		"of another":    {func(c *store.Config) { c.CertFile, c.KeyFile = stranger.Issue("client") }, "remote error: tls"},
		"to another":    {func(c *store.Config) { c.CAFile = stranger.CAFile }, "unknown authority"},
		"nobody there":  {func(c *store.Config) { c.Endpoints = []string{"https://127.0.0.1:1"} }, ""},
		"not TLS there": {func(c *store.Config) { c.Endpoints = []string{plain(t)} }, ""},
	} {
		cert, key = authority.Issue("client")
		told := make(chan error, 1)
		cfg := impatient(store.Config{Endpoints: []string{server.Endpoint()}, CertFile: cert, KeyFile: key, CAFile: authority.CAFile})
		cfg.OnDistrust = func(err error) {
			select {
			case told <- err:
			default:
			}
		}
		tt.change(&cfg)
		open := func() {
			st, err := store.Open(t.Context(), cfg)
			if err == nil {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}
			if (err == nil) != (name == "trusted") {
				t.Errorf("%s: %v", name, err)
			}
		}
		open()
		// On a busy machine a try may end before the handshake does.
		for try := 0; try < 100 && tt.want != "" && len(told) == 0; try++ {
			open()
		}
		select {
		case err := <-told:
			if tt.want == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: it was told %v", name, err)
			}
		default:
			if tt.want != "" {
				t.Errorf("%s: nothing was told", name)
			}
		}
	}
}

// plain is the address of a server that does not know TLS.
func plain(t *testing.T) string {
	t.Helper()
	return "https" + strings.TrimPrefix(storetest.Start(t, embedded.Config{}).Endpoint(), "http")
}

// At its quota etcd refuses writes; reads and deletions work.
func TestFullStore(t *testing.T) {
	server := storetest.Start(t, embedded.Config{Quota: 1 << 20})
	s := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	put(t, s, "/t/small", 1)
	var err error
	for i := range 10_000 { // etcd knows its size only from the last commit of its database, 100 ms ago
		_, err = write(t, s, fmt.Sprintf("/t/big/%d/", i), 10, 20_000, 0)
		if err != nil && !errors.Is(err, store.ErrUnknownOutcome) {
			break // the one before, which passed the quota, may have been applied
		}
	}
	if !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("a full store: %v", err)
	}
	if _, err := s.OpenSession(t.Context(), store.SessionConfig{Key: "/t/session", Record: 1}); !errors.Is(err, store.ErrFull) {
		t.Errorf("a session in a full store: %v", err)
	}
	if _, err := s.Get(t.Context(), "/t/small"); err != nil {
		t.Error(err)
	}
	remove(t, s, "/t/small")
	if _, err := s.Get(t.Context(), "/t/small"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
}

// The cluster works on while one of three members is down.
func TestThreeMembers(t *testing.T) {
	t.Parallel()
	members := storetest.StartMembers(t, 3)
	s, _ := open(t, store.Config{Endpoints: storetest.Endpoints(members), RequestTimeout: time.Second})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 200 * time.Millisecond})
	wait(t, m, put(t, s, "/t/a", 1))
	for i := range 10 {
		id := "r" + string(rune('a'+i))
		if _, err := s.Update(t.Context(), increment("/t/n", "/t/requests/"+id, id, nil)); err != nil {
			t.Error(err)
		}
		if i == 4 {
			members[0].Close()
		}
	}
	c, kv := get[counter](t, s, "/t/n")
	if c.N != 10 {
		t.Errorf("counter %d", c.N)
	}
	wait(t, m, kv.ModRevision)
	if got := content(m)["/t/n"]; got != `{"n":10}` {
		t.Errorf("the mirror has %s", got)
	}
}
