package cli

import (
	"bytes"
	"errors"
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
