package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

// Who had no configuration read that 127.0.0.1:8080 refuses the connection, an address that he had
// never heard of.
func TestAnAddressThatNobodyGaveIsToldAsOne(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "none"))
	const way = "give --endpoint, or make a context"
	for name, c := range map[string]struct {
		endpoint string
		err      error
		told     bool
	}{
		"no address":            {"", &client.Error{Problem: v1.Problem{Code: v1.CodeUnavailable}, Err: errors.New("connection refused")}, true},
		"one that was given":    {"http://127.0.0.1:1", &client.Error{Problem: v1.Problem{Code: v1.CodeUnavailable}, Err: errors.New("connection refused")}, false},
		"an answer":             {"", &client.Error{Problem: v1.Problem{Code: v1.CodeUnavailable, Status: 503}}, false},
		"a file that is absent": {"", errors.New("no such file"), false},
	} {
		var stderr bytes.Buffer
		a := &command.App{Stderr: &stderr, Form: output.FormTable}
		var err error
		if a.Connection, _, err = (settings.Flags{Endpoint: c.endpoint}).Resolve(); err != nil {
			t.Fatal(err)
		}
		sayEndpoint(a, c.err)
		if told := strings.Contains(stderr.String(), way); told != c.told {
			t.Errorf("%s: %q", name, stderr.String())
		}
	}
}

// Whoever sees the traffic to an address without TLS reads the password, and the user was not told.
func TestCredentialsThatCanBeReadOnTheirWayAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		connection settings.Connection
		told       bool
	}{
		"http":             {settings.Connection{Endpoint: "http://federation.example:8080", User: "oscar"}, true},
		"https":            {settings.Connection{Endpoint: "https://federation.example", User: "oscar"}, false},
		"this machine":     {settings.Connection{Endpoint: settings.DefaultEndpoint, User: "oscar"}, false},
		"no credentials":   {settings.Connection{Endpoint: "http://federation.example:8080"}, false},
		"an access token":  {settings.Connection{Endpoint: "http://192.0.2.1", TokenFile: secretFile(t)}, true},
		"a token by https": {settings.Connection{Endpoint: "https://192.0.2.1", TokenFile: secretFile(t)}, false},
	} {
		var stderr bytes.Buffer
		a := &command.App{Stderr: &stderr, Connection: c.connection}
		if _, err := a.Dial(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if told := strings.Contains(stderr.String(), "can read the credentials"); told != c.told {
			t.Errorf("%s: %q", name, stderr.String())
		}
	}
}

// secretFile holds a token.
func secretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
