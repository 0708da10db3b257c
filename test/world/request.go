package world

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"

	"github.com/oscarfed/oscarfed/test/await"
)

// Do sends one raw request to the API as the administrator.
func (w *World) Do(method, path, body string, header ...string) (int, http.Header, string) {
	w.T.Helper()
	basic := base64.StdEncoding.EncodeToString([]byte(User + ":" + Password))
	return w.Raw(method, path, body, "Basic "+basic, header...)
}

// Raw sends one request to the API with an Authorization header, and answers all of it.
func (w *World) Raw(method, path, body, authorization string, header ...string) (int, http.Header, string) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), await.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.API+path, bytes.NewBufferString(body))
	if err != nil {
		w.T.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.HTTP().Do(req)
	if err != nil {
		w.T.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(data)
}

// HTTP is a client that reaches the API and the OSCARs.
func (w *World) HTTP() *http.Client { return &http.Client{Transport: w.transport} }

// DeleteDirectly is somebody's DELETE at an OSCAR, behind the federation's back.
func (w *World) DeleteDirectly(url string) {
	w.T.Helper()
	if status, _ := w.Directly(http.MethodDelete, url, nil); status != http.StatusNoContent {
		w.T.Fatalf("DELETE %s: %d", url, status)
	}
}

// Directly is somebody's request at an OSCAR.
func (w *World) Directly(method, url string, body []byte) (status int, answer []byte) {
	w.T.Helper()
	status, answer, err := w.TryDirectly(w.T.Context(), method, url, body)
	if err != nil {
		w.T.Fatal(err)
	}
	return status, answer
}

// TryDirectly is the same at an OSCAR that may be away.
func (w *World) TryDirectly(ctx context.Context, method, url string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.SetBasicAuth(User, Password)
	resp, err := w.HTTP().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// Service reads a definition that has no violations.
func Service(t testing.TB, definition string) *oscar.Service {
	t.Helper()
	s, violations := oscar.ParseService([]byte(definition))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return s
}
