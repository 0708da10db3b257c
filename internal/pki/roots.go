package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// maxRootsFile bounds a file of authorities in bytes.
const maxRootsFile = 1 << 20

// Roots are the authorities that servers are verified with. Those of a file are read again when it changes: an
// authority is replaced while its clients run. A nil *Roots is the system's.
type Roots struct {
	// file is empty for authorities that never change.
	file string
	log  *slog.Logger

	mu      sync.Mutex
	present *roots
	// seen is what the file was when it was read, and refused when it was found not to be of use since; nil when it
	// was not.
	seen    stamp
	refused *stamp
}

// roots are authorities that were read once.
type roots struct {
	pem  []byte
	pool *x509.CertPool
}

// OpenRoots reads the authorities in a file.
func OpenRoots(file string, log *slog.Logger) (*Roots, error) {
	r := &Roots{file: file, log: log}
	var err error
	if r.seen, err = stampOf(file); err == nil {
		r.present, err = readRoots(file)
	}
	if err != nil {
		return nil, fmt.Errorf("authorities: %w", err)
	}
	return r, nil
}

// NewRoots are authorities that never change, as PEM.
func NewRoots(pem []byte) (*Roots, error) {
	present, err := parseRoots(pem)
	if err != nil {
		return nil, fmt.Errorf("authorities: %w", err)
	}
	return &Roots{present: present}, nil
}

// Pool is what a new connection is verified with; nil for the system's. It is another one when the file has changed.
func (r *Roots) Pool() *x509.CertPool {
	if r == nil {
		return nil
	}
	return r.look().pool
}

// PEM is the same as text; empty for the system's.
func (r *Roots) PEM() []byte {
	if r == nil {
		return nil
	}
	return r.look().pem
}

// look reads a file that has changed. What cannot be used is not taken over: the present ones go on.
func (r *Roots) look() *roots {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == "" {
		return r.present
	}
	// The stamp is taken before the contents: a change in between is seen next time.
	now, err := stampOf(r.file)
	if err == nil && now == r.seen {
		r.refused = nil
		return r.present
	}
	var next *roots
	if err == nil {
		next, err = readRoots(r.file)
	}
	if err != nil {
		if r.refused == nil || now != *r.refused {
			r.log.Warn("changed authorities cannot be used; the present ones go on", "file", r.file, "error", err)
		}
		r.refused = &now
		return r.present
	}
	r.present, r.seen, r.refused = next, now, nil
	r.log.Info("changed authorities are in use", "file", r.file)
	return r.present
}

func readRoots(file string) (*roots, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(f, maxRootsFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxRootsFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxRootsFile)
	}
	out, err := parseRoots(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

func parseRoots(text []byte) (*roots, error) {
	out := &roots{pem: text, pool: x509.NewCertPool()}
	if !out.pool.AppendCertsFromPEM(text) {
		return nil, errors.New("it holds no PEM certificate")
	}
	return out, nil
}
