package openid_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/oscarfed/oscarfed/test/openid"
)

// provider is that of all tests; each has users of its own.
var provider *openid.Provider

func TestMain(m *testing.M) {
	var err error
	if provider, err = openid.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := provider.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "openid:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}
