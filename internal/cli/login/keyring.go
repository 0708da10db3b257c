package login

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// The refresh token of a login is in the keyring of the person's session, where there is one
// (Secret Service, macOS, Windows). The access token, which lives for an hour, stays in the file: so
// a command needs the keyring only when it renews.

const (
	// ringService is what the keyring shows a person.
	ringService = "oscarfed"
	// ringTimeout is how long the keyring may take: a person may have to unlock it.
	ringTimeout = time.Minute
)

// Hidden is the login with its refresh token in the keyring; as it is where there is none, or where the
// keyring does not take it.
func (r Record) Hidden(ctx context.Context) Record {
	if r.RefreshToken == "" || !hasKeyring(runtime.GOOS, os.Getenv) {
		return r
	}
	id := rand.Text()
	if inTime(ctx, func() error { return keyring.Set(ringService, id, r.RefreshToken) }) != nil {
		return r
	}
	r.Keyring, r.RefreshToken = id, ""
	return r
}

// Whole is the login with its refresh token, also where the keyring has it.
func (r Record) Whole(ctx context.Context) (Record, error) {
	if r.Keyring == "" {
		return r, nil
	}
	var token string
	err := inTime(ctx, func() (err error) {
		token, err = keyring.Get(ringService, r.Keyring)
		return err
	})
	if err != nil {
		return r, exit.Errorf(exit.NotAuthorised,
			"the refresh token is in the keyring of this machine, which does not give it (%w): unlock it, or oscarfed login --no-keyring", err)
	}
	r.RefreshToken = token
	return r, nil
}

// Forget takes the refresh token out of the keyring.
func (r Record) Forget(ctx context.Context) {
	if r.Keyring != "" {
		// One that stays there is of a login that has ended.
		_ = inTime(ctx, func() error { return keyring.Delete(ringService, r.Keyring) })
	}
}

// again puts the token of a renewed login where the former one was. One that the keyring does not take
// any more stays in the file: it must not be lost.
func (r Record) again(ctx context.Context, former string) Record {
	if r.Keyring == "" {
		return r
	}
	if r.RefreshToken != former && inTime(ctx, func() error { return keyring.Set(ringService, r.Keyring, r.RefreshToken) }) != nil {
		r.Keyring = ""
		return r
	}
	r.RefreshToken = ""
	return r
}

// hasKeyring says whether it is worth asking: on Linux a keyring is behind the bus of a session, which
// must not be started for it.
func hasKeyring(system string, getenv func(string) string) bool {
	if system == "darwin" || system == "windows" || getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return true
	}
	dir := getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "bus"))
	return err == nil
}

// inTime does what knows no end of its own.
func inTime(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(ringTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("no answer within %s", ringTimeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
