package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/test/wire"
)

func TestRelayChallenge(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	want(t, c.do("POST", "/system/relay/challenge", `{"cluster_id":"d","cluster_uid":"u"}`, "Authorization", ""), 200, jsonType,
		`{"instance":"an-instance","challenge":"YWdl","expires_at":"2026-11-20T13:05:05.120Z"}`)
	want(t, c.do("POST", "/system/relay/challenge", `{"cluster_id":"d","cluster_uid":"u","connected":["x","an-instance"]}`, "Authorization", ""), 200, jsonType,
		`{"instance":"an-instance","instances":2}`)
	many := `{"cluster_id":"d","cluster_uid":"u","connected":["` + strings.Repeat(`x","`, 64) + `x"]}`
	if resp := c.do("POST", "/system/relay/challenge", many, "Authorization", ""); resp.StatusCode != 400 {
		t.Errorf("65 instances: %d", resp.StatusCode)
	}
}

// connected is a caller of a server, on a network in memory.
type connected struct {
	host *wire.Host
	http *http.Client
	// url is the server's.
	url string
}

// relayServer serves a fake control plane.
func relayServer(t *testing.T, f *fake, change ...func(*server.Config)) connected {
	t.Helper()
	checker, err := description()
	if err != nil {
		t.Fatal(err)
	}
	n := wire.ForTest(t)
	url := n.Host("api").Serve(t, checker.Handler(t, newServer(t, f, change...).Handler()))
	host := n.Host("client")
	return connected{host, &http.Client{Transport: host.Transport(nil)}, url}
}

const upgrade = "GET /system/relay HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: oscarfed-relay-1\r\n" +
	"Oscarfed-Cluster: d\r\nOscarfed-Cluster-Uid: u\r\nOscarfed-Relay-Proof: p\r\nOscarfed-Relay-Connected: a,b\r\n\r\n"

// What the syncer sends before it has read the answer belongs to the stream.
func TestRelayHandsTheConnectionOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := make(chan error, 1)
		f := &fake{stream: func(_ context.Context, conn net.Conn) error {
			defer conn.Close() //nolint:errcheck // of a test
			buf := make([]byte, len("early"))
			_, err := io.ReadFull(conn, buf)
			if err == nil {
				_, err = conn.Write([]byte("got " + string(buf)))
			}
			served <- err
			return err
		}}
		c := relayServer(t, f)
		conn, err := c.host.DialContext(t.Context(), "tcp", strings.TrimPrefix(c.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // of a test
		if _, err := io.WriteString(conn, upgrade+"early"); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "oscarfed-relay-1" || resp.Header.Get("Connection") != "Upgrade" || resp.Header.Get("Oscarfed-Instance") != "an-instance" {
			t.Errorf("answered %d %v", resp.StatusCode, resp.Header)
		}
		if rest, err := io.ReadAll(r); string(rest) != "got early" {
			t.Errorf("read %q, %v", rest, err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		got := f.calls[len(f.calls)-1].args
		if diff := cmp.Diff(clusters.OpenStream{Cluster: "d", UID: "u", Proof: "p", Connected: []string{"a", "b"}}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRelayRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		err     error
		status  int
	}{
		"no upgrade":      {strings.Replace(upgrade, "keep-alive, Upgrade", "keep-alive", 1), nil, 400},
		"another upgrade": {strings.Replace(upgrade, "oscarfed-relay-1", "websocket", 1), nil, 400},
		"an old HTTP":     {strings.Replace(upgrade, "HTTP/1.1", "HTTP/1.0", 1), nil, 400},
		"no proof":        {upgrade, &fault.Error{Code: fault.CodeForbidden, Message: "no"}, 403},
		"a stream is there": {
			upgrade, &fault.Error{Code: fault.CodeConflict, Message: "no"}, 409,
		},
		"a fault":   {upgrade, errors.New("etcd says: secret"), 500},
		"too many":  {strings.Replace(upgrade, "a,b", strings.Repeat("a,", 64)+"b", 1), nil, 400},
		"too large": {strings.Replace(upgrade, "a,b", strings.Repeat("a", 70<<10), 1), nil, 431},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{err: c.err, stream: func(context.Context, net.Conn) error { return errors.New("a stream began") }}
				n := wire.ForTest(t)
				srv := &httptest.Server{Listener: n.Host("api").MustListen(t), Config: &http.Server{Handler: newServer(t, f).Handler(), MaxHeaderBytes: 64 << 10}}
				srv.Start()
				defer srv.Close()
				conn, err := n.Host("client").DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close() //nolint:errcheck // of a test
				if _, err := io.WriteString(conn, c.request); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
				if resp.StatusCode != c.status || strings.Contains(string(body), "secret") {
					t.Errorf("answered %d %s", resp.StatusCode, body)
				}
			})
		})
	}
}

// An address that fails again and again is limited before its proof is verified.
func TestRelayCountsWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{err: &fault.Error{Code: fault.CodeForbidden, Message: "no"}}
		c := relayServer(t, f, func(c *server.Config) { c.RateLimit = 3 })
		last := 0
		for range 20 {
			req, err := http.NewRequestWithContext(t.Context(), "GET", c.url+"/system/relay", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"oscarfed-relay-1"}}
			resp, err := c.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			last = resp.StatusCode
		}
		if last != 429 {
			t.Errorf("the twentieth was answered %d", last)
		}
	})
}
