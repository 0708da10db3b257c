// Command certificates makes what the members of an etcd need: certificates DIR HOST... writes tls.crt, tls.key and
// ca.crt.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: certificates DIR HOST...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}

func write(dir string, hosts []string) error {
	work, err := os.MkdirTemp("", "certificates-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is in a folder for such
	authority, err := pki.LoadOrCreate(work, "etcd of a test", time.Now)
	if err != nil {
		return err
	}
	cert, key, err := authority.Issue(pki.Subject{Hosts: hosts, Life: 24 * time.Hour})
	if err != nil {
		return err
	}
	return errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
		os.WriteFile(filepath.Join(dir, "ca.crt"), authority.CertPEM(), 0o600),
	)
}
