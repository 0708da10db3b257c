package world

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// DeleteDirectly is somebody's DELETE at an OSCAR, behind the federation's back.
func DeleteDirectly(t testing.TB, url string) {
	t.Helper()
	if status, _ := Directly(t, http.MethodDelete, url, nil); status != http.StatusNoContent {
		t.Fatalf("DELETE %s: %d", url, status)
	}
}

// Directly is somebody's request at an OSCAR.
func Directly(t testing.TB, method, url string, body []byte) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(User, Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}
