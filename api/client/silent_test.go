package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
)

// pair is two control planes behind one address, to which connections go in turn, as through a Service of
// Kubernetes; calls counts what each has got.
type pair struct {
	hosts  [2]*wire.Host
	calls  [2]atomic.Int32
	client *client.Client
}

// newPair makes one, over HTTP/2 with TLS, or over HTTP/1.1 without.
func newPair(t *testing.T, secure bool) *pair {
	t.Helper()
	n, p := wire.ForTest(t), &pair{}
	roots, url, addresses := x509.NewCertPool(), "http://api.test", [2]string{}
	for i := range p.hosts {
		p.hosts[i] = n.Host([]string{"one", "two"}[i])
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.calls[i].Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Method == http.MethodPost {
				w.Header().Set("X-Job-ID", "j")
				w.WriteHeader(http.StatusCreated)
			}
			_, _ = io.WriteString(w, "{}")
		}))
		_ = s.Listener.Close()
		s.Listener = p.hosts[i].MustListen(t)
		addresses[i] = s.Listener.Addr().String()
		if secure {
			s.EnableHTTP2, url = true, "https://example.com"
			s.StartTLS()
			roots.AddCert(s.Certificate())
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		t.Cleanup(p.hosts[i].Thaw)
	}
	from, turn := n.Host("caller"), 0
	var dial outbound.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		turn++
		return from.DialContext(ctx, network, addresses[(turn-1)%2])
	}
	transport := dial.Transport(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots})
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Config{Endpoint: url, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	p.client = c
	return p
}

// A control plane that is frozen keeps its connections and answers nothing: who reads, sends a job or creates with a
// key waited for 45 s before the other one was asked.
func TestACallLeavesAControlPlaneThatIsFrozen(t *testing.T) {
	svc := parse(t, `{"name":"a"}`)
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"read": func(ctx context.Context, c *client.Client) error { _, err := c.Info(ctx); return err },
		"job": func(ctx context.Context, c *client.Client) error {
			_, err := c.SubmitJob(ctx, "a", nil, client.JobOptions{IdempotencyKey: "k"})
			return err
		},
		"create": func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateService(ctx, svc, client.CreateOptions{IdempotencyKey: "k", Async: true})
			return err
		},
	} {
		for proto, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+" over "+proto, func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					p := newPair(t, secure)
					if err := call(t.Context(), p.client); err != nil || p.calls[0].Load() != 1 {
						t.Fatalf("the first control plane got %d calls; %v", p.calls[0].Load(), err)
					}
					p.hosts[0].Freeze()
					began := time.Now()
					if err := call(t.Context(), p.client); err != nil || p.calls[1].Load() != 1 {
						t.Errorf("the other control plane got %d calls; %v", p.calls[1].Load(), err)
					}
					if took := time.Since(began); took > client.DefaultHeadTimeout+5*time.Second {
						t.Errorf("it waited for %s of virtual time", took)
					}
				})
			})
		}
	}
}

// What may be answered late has its time: the last try, what the control plane was told to wait for, a body that is
// long under way, and what may not be sent twice.
func TestASlowAnswerIsAwaited(t *testing.T) {
	svc := parse(t, `{"name":"a"}`)
	tests := map[string]struct {
		call       func(context.Context, *client.Client) error
		head, body time.Duration
		tries      int32
	}{
		"a read at the server's own deadline": {
			call: func(ctx context.Context, c *client.Client) error { _, err := c.Info(ctx); return err },
			head: 30 * time.Second, tries: 3,
		},
		"a body": {
			call: func(ctx context.Context, c *client.Client) error { _, err := c.Info(ctx); return err },
			head: 9 * time.Second, body: 30 * time.Second, tries: 1,
		},
		"a log of a cluster": {
			call: func(ctx context.Context, c *client.Client) error {
				_, err := c.JobLog(ctx, "a", "j", client.LogOptions{})
				return err
			},
			head: 90 * time.Second, tries: 1,
		},
		"a plan that asks": {
			call: func(ctx context.Context, c *client.Client) error {
				_, err := c.Plan(ctx, svc, client.PlanOptions{Ask: true})
				return err
			},
			head: 20 * time.Second, tries: 1,
		},
		"a creation that waits": {
			call: func(ctx context.Context, c *client.Client) error {
				_, err := c.CreateService(ctx, svc, client.CreateOptions{IdempotencyKey: "k", Wait: time.Minute})
				return err
			},
			head: 90 * time.Second, tries: 1,
		},
		"a job without a key": {
			call: func(ctx context.Context, c *client.Client) error {
				_, err := c.SubmitJob(ctx, "a", nil, client.JobOptions{})
				return err
			},
			head: 40 * time.Second, tries: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				n := wire.ForTest(t)
				var count atomic.Int32
				url := n.Host("server").Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					count.Add(1)
					_, _ = io.Copy(io.Discard, r.Body)
					after(r.Context(), tt.head)
					w.Header().Set("X-Job-ID", "j")
					_, _ = io.WriteString(w, "{")
					_ = http.NewResponseController(w).Flush()
					after(r.Context(), tt.body)
					_, _ = io.WriteString(w, "}")
				}))
				transport := n.Host("caller").Transport(nil)
				defer transport.CloseIdleConnections()
				c, err := client.New(client.Config{Endpoint: url, Transport: transport})
				if err != nil {
					t.Fatal(err)
				}
				if err := tt.call(t.Context(), c); err != nil || count.Load() != tt.tries {
					t.Errorf("sent %d times, not %d; %v", count.Load(), tt.tries, err)
				}
				synctest.Wait()
			})
		})
	}
}

// after waits for a time, or for ctx.
func after(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
