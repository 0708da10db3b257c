package origin_test

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/test/wire"
)

const (
	alice = "62bb11b4@egi.eu"
	token = "an-access-token"
	minio = "https://minio.a.example.org"
)

// config is what an OSCAR answers.
func config(endpoint, access, secret string) string {
	return fmt.Sprintf(`{"config":{"name":"oscar"},"minio_provider":{"endpoint":%q,"verify":true,"access_key":%q,"secret_key":%q,"region":"eu-1"},"allowed_image_repositories":[]}`,
		endpoint, access, secret)
}

// answering is a server that answers every request alike, and counts those with the token.
type answering struct {
	*httptest.Server
	asked atomic.Int32
}

func answer(t *testing.T, start func(http.Handler) *httptest.Server, status int, body string) *answering {
	t.Helper()
	a := &answering{}
	a.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/system/config" || r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		a.asked.Add(1)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(a.Close)
	return a
}

func client(t *testing.T, cfg origin.Config) *origin.Client {
	t.Helper()
	c, err := origin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ask(endpoint string) origin.Ask {
	return origin.Ask{Owner: alice, Token: token, Cluster: "a", Endpoint: endpoint, SSLVerify: true, MinIO: minio + "/"}
}

func kindOf(t *testing.T, err error) origin.Kind {
	t.Helper()
	e, ok := errors.AsType[*origin.Error](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	return e.Kind
}

var plain = httptest.NewServer

func TestKeysComeFromTheOSCAROfTheOrigin(t *testing.T) {
	oscar := answer(t, plain, 200, config(minio, alice, "s3cret"))
	api := answer(t, plain, 200, config(minio, alice, "not asked"))
	keys, err := client(t, origin.Config{ControlPlane: api.URL}).Keys(t.Context(), ask(oscar.URL))
	want := origin.Keys{Endpoint: minio, Region: "eu-1", Verify: true, AccessKey: alice, SecretKey: "s3cret"}
	if err != nil || keys != want {
		t.Errorf("keys %+v, %v", keys, err)
	}
	if oscar.asked.Load() != 1 || api.asked.Load() != 0 {
		t.Errorf("OSCAR was asked %d times, the control plane %d", oscar.asked.Load(), api.asked.Load())
	}
	shown, _ := json.Marshal(keys)
	for _, text := range []string{fmt.Sprint(keys), fmt.Sprintf("%+v", keys), fmt.Sprintf("%#v", keys), string(shown), slog.AnyValue(keys.SecretKey).String()} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("the secret key is shown in %s", text)
		}
	}
}

// Where an OSCAR gives no keys that can be used from here, the control plane is asked; and
// what it answers is looked at alike.
func TestTheControlPlaneIsAskedNext(t *testing.T) {
	const none = ""
	for name, c := range map[string]struct {
		direct       int
		directly     string
		relay        int
		relayed      string
		kind         origin.Kind
		mention      string
		noControlOne bool
	}{
		"nobody is there":                            {relay: 200, relayed: config(minio, alice, "k")},
		"another MinIO answers under that address":   {direct: 200, directly: config("http://minio.minio:9000", alice, "other"), relay: 200, relayed: config(minio, alice, "k")},
		"a gateway answers":                          {direct: 502, relay: 200, relayed: config(minio, alice, "k")},
		"a login page answers":                       {direct: 200, directly: "<html>", relay: 200, relayed: config(minio, alice, "k")},
		"neither is there":                           {relay: 503, kind: origin.Unreachable, mention: "neither from here nor"},
		"there is no control plane":                  {noControlOne: true, kind: origin.Unreachable, mention: "from here"},
		"OSCAR does not let him in":                  {direct: 401, relay: 503, kind: origin.Refused, mention: "does not let the owner in"},
		"the control plane says that":                {relay: 403, kind: origin.Refused, mention: "does not let the owner in"},
		"somebody else's keys":                       {direct: 200, directly: config(minio, "bob", "k"), relay: 200, relayed: config(minio, "bob", "k"), kind: origin.Wrong, mention: "not the owner's"},
		"the administrator's keys":                   {direct: 200, directly: config(minio, "minio", "root"), relay: 503, kind: origin.Wrong, mention: "not the owner's"},
		"no keys":                                    {direct: 200, directly: config(minio, alice, none), relay: 503, kind: origin.Wrong, mention: "no keys"},
		"keys that would break a header":             {direct: 200, directly: config(minio, alice, "a\r\nb"), relay: 503, kind: origin.Wrong, mention: "no keys"},
		"keys that are too long":                     {direct: 200, directly: config(minio, alice, strings.Repeat("x", 2000)), relay: 503, kind: origin.Wrong, mention: "no keys"},
		"the MinIO has moved":                        {direct: 200, directly: config("https://new.example.org", alice, "k"), relay: 200, relayed: config("https://new.example.org", alice, "k"), kind: origin.Wrong, mention: "change the service"},
		"an answer that is too long":                 {direct: 200, directly: strings.Repeat(" ", 1<<20) + config(minio, alice, "k"), relay: 503, kind: origin.Unreachable, mention: "cannot be asked"},
		"what is no configuration from both of them": {direct: 200, directly: "{}", relay: 200, relayed: "null", kind: origin.Unreachable, mention: "not the configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := nobody(t)
			if c.direct != 0 {
				endpoint = answer(t, plain, c.direct, c.directly).URL
			}
			cfg := origin.Config{}
			if !c.noControlOne {
				cfg.ControlPlane = answer(t, plain, c.relay, c.relayed).URL
			}
			keys, err := client(t, cfg).Keys(t.Context(), ask(endpoint))
			if c.kind == 0 {
				if err != nil || keys.SecretKey != "k" {
					t.Errorf("keys %+v of %q, %v", keys, string(keys.SecretKey), err)
				}
				return
			}
			e, ok := errors.AsType[*origin.Error](err)
			if !ok || e.Kind != c.kind || !strings.Contains(e.Message, c.mention) || keys != (origin.Keys{}) {
				t.Errorf("keys %+v, error %v", keys, err)
			}
			if strings.Contains(fmt.Sprint(err), token) || strings.Contains(fmt.Sprint(err), "127.0.0.1") && strings.Contains(e.Message, "127.0.0.1") {
				t.Errorf("the message is not the same each time, or tells the token: %v", err)
			}
		})
	}
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// An access token is sent to nobody whose certificate is not verified, unless the
// registration says so; not in clear over a network; and nobody sends it on.
func TestWhereATokenIsNotSent(t *testing.T) {
	secure := answer(t, httptest.NewTLSServer, 200, config(minio, alice, "k"))
	a := ask(secure.URL)
	if _, err := client(t, origin.Config{}).Keys(t.Context(), a); kindOf(t, err) != origin.Unreachable || secure.asked.Load() != 0 {
		t.Errorf("an unknown certificate: %v, asked %d times", err, secure.asked.Load())
	}
	a.SSLVerify = false
	if keys, err := client(t, origin.Config{}).Keys(t.Context(), a); err != nil || keys.SecretKey != "k" {
		t.Errorf("one that need not be verified: %v", err)
	}
	for _, endpoint := range []string{"http://oscar.example.org", "http://192.0.2.1", "ftp://127.0.0.1", "https://user:pw@127.0.0.1", "", "::"} {
		_, err := client(t, origin.Config{}).Keys(t.Context(), ask(endpoint))
		if kindOf(t, err) != origin.Unreachable {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	elsewhere := answer(t, plain, 200, config(minio, alice, "k"))
	astray := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/system/config", http.StatusTemporaryRedirect))
	t.Cleanup(astray.Close)
	if _, err := client(t, origin.Config{}).Keys(t.Context(), ask(astray.URL)); kindOf(t, err) != origin.Unreachable || elsewhere.asked.Load() != 0 {
		t.Errorf("a redirect: %v, asked %d times", err, elsewhere.asked.Load())
	}
	for _, c := range []origin.Ask{{Owner: alice}, {Token: token}} {
		c.Cluster, c.Endpoint, c.MinIO = "a", elsewhere.URL, minio
		if _, err := client(t, origin.Config{}).Keys(t.Context(), c); kindOf(t, err) != origin.Refused || elsewhere.asked.Load() != 0 {
			t.Errorf("without a token or an owner: %v", err)
		}
	}
	if _, err := origin.New(origin.Config{ControlPlane: "http://federation.example.org"}); err == nil {
		t.Error("a control plane in clear is taken")
	}
}

// The control plane is known by the authorities that it was given with.
func TestTheControlPlanesCertificateIsVerified(t *testing.T) {
	api := answer(t, httptest.NewTLSServer, 200, config(minio, alice, "k"))
	a := ask(nobody(t))
	if _, err := client(t, origin.Config{ControlPlane: api.URL}).Keys(t.Context(), a); kindOf(t, err) != origin.Unreachable || api.asked.Load() != 0 {
		t.Errorf("an unknown certificate: %v", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(api.Certificate())
	if _, err := client(t, origin.Config{ControlPlane: api.URL, Roots: func() *x509.CertPool { return pool }}).Keys(t.Context(), a); err != nil {
		t.Error(err)
	}
}

// Who does not answer at all does not hold up who asks.
func TestAnOSCARThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := wire.New(1)
		release := make(chan struct{})
		hangs := on(t, n)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		t.Cleanup(hangs.Close)
		t.Cleanup(func() { close(release) })
		api := answer(t, on(t, n), 200, config(minio, alice, "k"))
		c := client(t, origin.Config{ControlPlane: api.URL, Dial: n.Host("syncer").DialContext})
		began := time.Now()
		if _, err := c.Keys(t.Context(), ask(hangs.URL)); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the keys took %s", took)
		}
		if err := c.Alive(t.Context(), hangs.URL, true); kindOf(t, err) != origin.Unreachable {
			t.Error(err)
		}
	})
}

// on starts servers on a network.
func on(t *testing.T, n *wire.Network) func(http.Handler) *httptest.Server {
	t.Helper()
	return func(handler http.Handler) *httptest.Server {
		l, err := n.Host("origin").Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
		server.Start()
		return server
	}
}

func TestAMinIOThatAnswersAnythingIsAlive(t *testing.T) {
	path := make(chan string, 1)
	there := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path <- r.URL.Path
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(there.Close)
	c := client(t, origin.Config{})
	if err := c.Alive(t.Context(), there.URL+"/", false); err != nil || <-path != "/minio/health/live" {
		t.Error(err)
	}
	if err := c.Alive(t.Context(), there.URL, true); kindOf(t, err) != origin.Unreachable {
		t.Errorf("a certificate that is to be verified: %v", err)
	}
	for _, endpoint := range []string{nobody(t), "", "minio", "https://\x00"} {
		if err := c.Alive(t.Context(), endpoint, true); kindOf(t, err) != origin.Unreachable {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
