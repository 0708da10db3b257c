package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
)

// archive is a tar archive with files of their own names.
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(name))}), lastOf(io.WriteString(w, name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func lastOf(_ int, err error) error { return err }

// An archive that is not whole is an error, wherever it ends.
func TestASupportArchiveIsWholeOrAnError(t *testing.T) {
	whole := archive(t, "metrics.txt", "control-plane.json")
	for what, tt := range map[string]struct {
		body []byte
		ok   bool
	}{
		"whole":                   {whole, true},
		"cut in a file":           {whole[:600], false},
		"cut between files":       {whole[:1024], false},
		"without its last file":   {archive(t, "metrics.txt"), false},
		"empty":                   {nil, false},
		"something else entirely": {bytes.Repeat([]byte("x"), 1024), false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-tar")
			if _, err := w.Write(tt.body); err != nil {
				t.Error(err)
			}
		}))
		c, err := client.New(client.Config{Endpoint: server.URL, User: "u", Password: "p"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		err = c.Support(t.Context(), func(name string, content io.Reader) error {
			data, err := io.ReadAll(content)
			if err == nil && string(data) != name {
				t.Errorf("%s: %s has %q", what, name, data)
			}
			names = append(names, name)
			return err
		})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", what, err)
		}
		if tt.ok && strings.Join(names, " ") != "metrics.txt control-plane.json" {
			t.Errorf("%s: %v", what, names)
		}
		server.Close()
	}
}
