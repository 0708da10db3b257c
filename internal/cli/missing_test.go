package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAListThatLacksAClusterLooksWhole: it was printed, and nothing said what was not in it.
func TestAListThatLacksAClusterLooksWhole(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Oscarfed-Missing", "oscar-cluster-c: no syncer is connected")
		_, _ = io.WriteString(w, "a line of the log\n")
	}))
	defer server.Close()
	var out, log bytes.Buffer
	status := Run(context.Background(), []string{"--endpoint", server.URL, "job", "logs", "j1", "--service", "s"}, strings.NewReader(""), &out, &log)
	if status != 0 || out.String() != "a line of the log\n" || log.String() != "not in this answer: oscar-cluster-c: no syncer is connected\n" {
		t.Errorf("%d %q %q", status, out.String(), log.String())
	}
}
