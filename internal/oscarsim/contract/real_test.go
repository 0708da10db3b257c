//go:build realoscar

package contract_test

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim/contract"
)

// TestRealOSCAR runs the contract on the OSCAR that the environment names. It fails when none is
// named: a build with the tag is meant to run it.
func TestRealOSCAR(t *testing.T) {
	target := contract.Target{URL: strings.TrimSuffix(os.Getenv("OSCAR_URL"), "/"), User: os.Getenv("OSCAR_USER")}
	file := os.Getenv("OSCAR_PASSWORD_FILE")
	if target.URL == "" || target.User == "" || file == "" {
		t.Fatal("set OSCAR_URL, OSCAR_USER and OSCAR_PASSWORD_FILE")
	}
	password, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	target.Password = strings.TrimSpace(string(password))
	if file := os.Getenv("OSCAR_TOKEN_FILE"); file != "" {
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		target.Token = strings.TrimSpace(string(token))
	}
	var random [3]byte
	rand.Read(random[:]) // never fails
	target.Prefix = "ct" + hex.EncodeToString(random[:])
	contract.Run(t, target)
}
