package login

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// maxFile bounds the file of a login, in bytes.
const maxFile = 256 << 10

// Record is a login as it stands in its file.
type Record struct {
	// ID names one login, and stays when its tokens are renewed. Those of earlier versions have none.
	ID string `json:"id,omitempty"`
	// API is the endpoint that the login is for. Its tokens are sent there, and to the issuer.
	API      string `json:"api"`
	Issuer   string `json:"issuer,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	// Agent is the account of oidc-agent that gives the tokens. What follows is empty then.
	Agent string `json:"oidc_agent,omitempty"`
	// Borrowed says that the login was taken from another program, which may go on with it. Renewed it is still
	// one session at the issuer, whose end is that program's to order.
	Borrowed     bool   `json:"borrowed,omitempty"`
	AccessToken  string `json:"access_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	// Keyring is the name under which the keyring has the refresh token, which is empty then.
	Keyring string    `json:"keyring,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

// String shows no token.
func (r Record) String() string { return "a login at " + cmp.Or(r.Issuer, "oidc-agent") }

// GoString shows no token.
func (r Record) GoString() string { return r.String() }

// File is the path of a login's file.
type File string

// Load reads a login. There is none when the error is fs.ErrNotExist.
func (f File) Load() (Record, error) {
	file, err := os.OpenFile(string(f), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return Record{}, err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return Record{}, err
	case !info.Mode().IsRegular():
		return Record{}, exit.Usagef("login: %s is not a regular file", f)
	case info.Mode().Perm()&0o077 != 0:
		return Record{}, exit.Usagef("login: others can read %s: chmod 600 %s, or oscarfed logout", f, f)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return Record{}, err
	}
	var r Record
	if json.Unmarshal(data, &r) != nil { // its error may quote a token
		return Record{}, exit.Usagef("login: %s cannot be read: oscarfed login makes it again", f)
	}
	return r, nil
}

// Update changes a login while no other process changes or renews it. change gets what is there, or why that cannot be
// read, and makes what replaces it; without an error nil removes it. After an error the login stays as it is.
func (f File) Update(ctx context.Context, change func(was Record, err error) (*Record, error)) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := change(f.Load())
	if err != nil {
		return err
	}
	if r == nil {
		if err := os.Remove(string(f)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	next, err := atomicfile.New(string(f))
	if err != nil {
		return err
	}
	return put(next, *r)
}

// put replaces a login by r.
func put(next *atomicfile.File, r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		_, err = next.Write(append(data, '\n'))
	}
	if err == nil {
		err = next.Commit()
	}
	if err = errors.Join(err, next.Discard()); err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	return nil
}

// lock excludes other processes, and other callers in this one, until unlock is called.
func (f File) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o700); err != nil {
		return nil, err
	}
	return atomicfile.Lock(ctx, string(f))
}
