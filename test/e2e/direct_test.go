package e2e_test

import (
	"net/http"
	"testing"

	"github.com/oscarfed/oscarfed/test/world"
)

// deleteDirectly is somebody's DELETE at an OSCAR, behind the federation's back.
func deleteDirectly(t testing.TB, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(world.User, world.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE %s: %s", url, resp.Status)
	}
}
