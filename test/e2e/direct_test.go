package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/oscarfed/oscarfed/test/world"
)

// deleteDirectly is somebody's DELETE at an OSCAR, behind the federation's back.
func deleteDirectly(t testing.TB, url string) {
	t.Helper()
	if status, _ := directly(t, http.MethodDelete, url, nil); status != http.StatusNoContent {
		t.Fatalf("DELETE %s: %d", url, status)
	}
}

// directly is somebody's request at an OSCAR.
func directly(t testing.TB, method, url string, body []byte) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(world.User, world.Password)
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
