package outbound_test

import (
	"net/url"
	"testing"

	"github.com/oscarfed/oscarfed/internal/outbound"
)

func TestPrivate(t *testing.T) {
	for address, want := range map[string]bool{
		"https://example.org":           true,
		"https://127.0.0.1":             true,
		"http://localhost:8080":         true,
		"http://127.8.9.1":              true,
		"http://[::1]:8080":             true,
		"http://example.org":            false,
		"http://localhost.example.org":  false,
		"http://127.0.0.1.example.org":  false,
		"http://192.0.2.1":              false,
		"ftp://localhost":               false,
		"//localhost":                   false,
		"http://0.0.0.0":                false,
		"http://localhost@example.org/": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if outbound.Private(u) != want {
			t.Errorf("%s: private is %v", address, !want)
		}
	}
}
