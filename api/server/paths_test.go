package server_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
)

// confused are ways to write a path so that one part of a server may take it for another
// path, or for an open one, than the next part does.
func confused(path string) []string {
	rest := strings.TrimPrefix(path, "/")
	head, tail, _ := strings.Cut(rest, "/")
	return []string{
		path, path + "/", path + "//", "/" + path, "///" + rest, "/./" + rest, "/../" + rest, "/health/../" + rest, "/health/.." + path,
		"/health/%2e%2e/" + rest, "/health%2f..%2f" + rest, "/health;" + path, "/health?" + path, "/health#" + path, "/health%00" + path,
		"/openapi.yaml/../" + rest, "/openapi.yaml%2f.." + path, "/system/join/../../" + rest, "/system/join/..%2f..%2f" + rest,
		"/system/relay/../../" + rest, "/" + head + "//" + tail, "/" + head + "/./" + tail, "/" + head + "/x/../" + tail, "/" + head + "%2f" + tail,
		"/" + head + "%252f" + tail, "/" + head + "\\" + tail, "/" + head + "%5c" + tail, "/" + head + ";x=y/" + tail, "/" + strings.ToUpper(head) + "/" + tail,
		"/%" + fmt.Sprintf("%x", head[0]) + head[1:] + "/" + tail, path + "%00", path + "%20", path + "%09", path + "%0a", path + "%0d%0aAuthorization:%20x",
		path + ";.css", path + ".json", path + "/.", path + "/..", path + "/%2e", path + "%2f", path + "?_method=GET", path + "\xff", path + "%ff", path + "%zz",
		"http://health" + path, "http://127.0.0.1/health" + path, "//health" + path, "*" + path,
	}
}

// headers are what proxies and frameworks take for the true path, method or caller.
func headers(path string) []string {
	return []string{
		"X-Original-URL: " + path, "X-Rewrite-URL: " + path, "X-Forwarded-Prefix: " + path, "X-Forwarded-Path: " + path, "X-HTTP-Method-Override: GET",
		"X-Remote-User: oscar", "X-Forwarded-User: oscar", "Forwarded: for=127.0.0.1", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1",
		"Connection: Authorization", "Transfer-Encoding: chunked",
	}
}

// No way to write a path, and no header beside it, leads to a use case without
// credentials. The requests are written by hand: clients would clean them.
func TestNoPathConfusionReachesTheControlPlane(t *testing.T) {
	f := &fake{health: gate.Health{OK: true}}
	server := httptest.NewServer(newServer(t, f).Handler())
	t.Cleanup(server.Close)
	type try struct{ method, target, header string }
	var tries []try
	for _, path := range []string{"/system/services", "/system/services/svc", "/system/clusters", "/system/replicas/svc", "/system/audit", "/job/svc", "/run/svc"} {
		method := http.MethodGet
		if strings.HasPrefix(path, "/job") || strings.HasPrefix(path, "/run") {
			method = http.MethodPost
		}
		for _, target := range confused(path) {
			tries = append(tries, try{method: method, target: target})
		}
		for _, header := range headers(path) {
			tries = append(tries, try{method, "/health", header}, try{method, path, header})
		}
		for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "GET ", "PROPFIND", ""} {
			tries = append(tries, try{method: method, target: path})
		}
	}
	for _, try := range tries {
		status, body := raw(t, server.Listener.Addr().String(), try.method, try.target, try.header)
		open := status == http.StatusOK && (strings.Contains(body, `"status":"ok"`) || strings.Contains(body, "Ok") || strings.HasPrefix(body, "openapi:"))
		preflight := status == http.StatusNoContent && try.method == http.MethodOptions
		if (status < 400 || status >= 500) && status != http.StatusNotImplemented && !open && !preflight {
			t.Errorf("%q %q %q: %d %.200q", try.method, try.target, try.header, status, body)
		}
		for _, call := range f.taken() {
			if call.name != "Health" {
				t.Errorf("%q %q %q reached the control plane: %+v", try.method, try.target, try.header, call)
			}
		}
	}
	// With credentials the plain path is one that is served.
	if status, _ := raw(t, server.Listener.Addr().String(), "GET", "/system/clusters", "Authorization: Basic "+
		base64.StdEncoding.EncodeToString([]byte(user+":"+password))); status != http.StatusOK || len(f.taken()) != 1 {
		t.Errorf("with credentials: %d", status)
	}
	t.Logf("%d confused requests", len(tries))
	if len(tries) < 138 {
		t.Errorf("only %d requests were sent", len(tries))
	}
}

// taken are the calls since it was asked last.
func (f *fake) taken() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// raw sends one request as it is written, and answers the status and the body; 400 when
// the connection was closed without an answer.
func raw(t *testing.T, address, method, target, header string) (status int, body string) {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	request := method + " " + target + " HTTP/1.1\r\nHost: health\r\nConnection: close\r\n"
	if header != "" {
		request += header + "\r\n"
	}
	ending := "\r\n"
	if strings.HasPrefix(header, "Transfer-Encoding") {
		ending += "0\r\n\r\n"
	}
	if _, err := io.WriteString(conn, request+ending); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return http.StatusBadRequest, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}
