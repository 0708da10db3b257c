package connection

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/oscarfed/oscarfed/store/internal/balance"
)

// With HTTPS_PROXY three members were one to gRPC, and the loss of that one was the loss of etcd.
func TestAProxyLeadsToEachMember(t *testing.T) {
	member, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = member.Close() })
	go func() {
		for {
			c, err := member.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "world")
			_ = c.Close()
		}
	}()
	asked := make(chan string)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth(); r.Method != http.MethodConnect || user != "alice" || password != "p" {
			t.Errorf("%s %s by %q", r.Method, r.Host, user)
		}
		select {
		case asked <- r.Host:
		case <-t.Context().Done():
		}
		if r.Host != "etcd-1.example.org:2379" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		ours, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		// The first bytes of the member may come with the answer.
		_, _ = fmt.Fprint(ours, "HTTP/1.1 200 OK\r\n\r\nhello, ")
		theirs, err := net.Dial("tcp", member.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(ours, theirs)
		_ = ours.Close()
	}))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTPS_PROXY", "http://alice:p@"+proxy.Listener.Addr().String())
	t.Setenv("NO_PROXY", "")

	names := []string{"etcd-1.example.org:2379", "etcd-2.example.org:2379", "etcd-3.example.org:2379"}
	members := manual.NewBuilderWithScheme("members")
	var state resolver.State
	for _, name := range names {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: name}}})
	}
	members.InitialState(state)
	options := append(Client(), balance.Options()...)
	client, err := grpc.NewClient("members:///"+names[0], append(options, grpc.WithResolvers(members), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	client.Connect()
	late := time.After(time.Minute)
	for seen := map[string]bool{}; len(seen) < len(names); {
		select {
		case name := <-asked:
			seen[name] = true
		case <-late:
			t.Fatalf("the proxy was asked for %v alone", seen)
		}
	}
	var drain sync.WaitGroup
	drain.Go(func() {
		for range asked { // what else gRPC tries
		}
	})
	if err := client.Close(); err != nil {
		t.Error(err)
	}

	conn, err := dial(t.Context(), names[0])
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || string(text) != "hello, world" {
		t.Errorf("%q, %v", text, err)
	}
	_ = conn.Close()
	if _, err := dial(t.Context(), names[1]); err == nil {
		t.Error("a proxy that refuses leads somewhere")
	}
	proxy.Close()
	close(asked)
	drain.Wait()
}
