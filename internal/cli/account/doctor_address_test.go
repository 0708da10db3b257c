package account

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/cli/command"
)

func TestDoctorWarnsOfACertificateThatEndsSoon(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	roots, err := (&command.App{}).Connection.Roots()
	if err != nil || roots != nil {
		t.Fatal("roots without a file")
	}
	d := &doctor{app: &command.App{Now: func() time.Time { return server.Certificate().NotAfter.Add(-time.Hour) }}}
	d.app.Connection.CAFile = ca
	if roots, err = d.app.Connection.Roots(); err != nil {
		t.Fatal(err)
	}
	if !d.address(t.Context(), "api", server.URL, roots, false) || d.checks[0].Result != checkWarn {
		t.Errorf("%+v", d.checks)
	}
}
