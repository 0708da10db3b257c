package login

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// A keyring that is locked, full or gone loses no login: it is asked before the token is used, and a
// successor that it does not take is kept in the file.
func TestAKeyringThatFailsLosesNoLogin(t *testing.T) {
	i := start(t, issuer.Grants{Rotate: true})
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/of/a/keyring")

	keyring.MockInitWithError(errors.New("locked"))
	_, whole := keep(t, i, nil)
	if got := whole.Hidden(t.Context()); got != whole {
		t.Errorf("a keyring that takes nothing: %#v", got.Keyring)
	}

	keyring.MockInit()
	hidden := whole.Hidden(t.Context())
	if hidden.RefreshToken != "" || hidden.Keyring == "" {
		t.Fatal("the keyring was not used")
	}
	f := File(filepath.Join(t.TempDir(), "site.json"))
	if err := save(t, f, hidden); err != nil {
		t.Fatal(err)
	}
	keyring.MockInitWithError(errors.New("locked"))
	if _, err := NewSource(f, api).Token(t.Context(), ""); exit.StatusOf(err) != exit.NotAuthorised || !strings.Contains(err.Error(), "--no-keyring") {
		t.Errorf("a keyring that is locked: %v", err)
	}
	if exchanges, _ := i.Exchanges(); exchanges != 0 {
		t.Error("a token was used that could not be replaced")
	}
	renewed := hidden
	renewed.RefreshToken = "the-next"
	if got := renewed.again(t.Context(), "the-former"); got.RefreshToken != "the-next" || got.Keyring != "" {
		t.Errorf("its successor is lost: %q", got.Keyring)
	}
}

func TestWhereThereIsAKeyring(t *testing.T) {
	dir, session := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(session, "bus"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		system string
		env    map[string]string
		want   bool
	}{
		"macOS":        {"darwin", nil, true},
		"a session":    {"linux", map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}, true},
		"a server":     {"linux", map[string]string{"XDG_RUNTIME_DIR": dir}, false},
		"a container":  {"linux", nil, false},
		"a user's bus": {"linux", map[string]string{"XDG_RUNTIME_DIR": session}, true},
	} {
		if got := hasKeyring(c.system, func(key string) string { return c.env[key] }); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
