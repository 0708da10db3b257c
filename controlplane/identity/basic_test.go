package identity_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

func TestBasic(t *testing.T) {
	auth, err := identity.NewBasic("oscar", "pass:wörd")
	if err != nil {
		t.Fatal(err)
	}
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	tests := []struct {
		name, header string
		ok           bool
	}{
		{"right", basic("oscar:pass:wörd"), true},
		{"scheme in lower case", strings.Replace(basic("oscar:pass:wörd"), "Basic", "basic", 1), true},
		{"none", "", false},
		{"wrong password", basic("oscar:pass:word"), false},
		{"password with a tail", basic("oscar:pass:wörd "), false},
		{"first part of the password", basic("oscar:pass"), false},
		{"empty password", basic("oscar:"), false},
		{"wrong user", basic("oscar2:pass:wörd"), false},
		{"empty user", basic(":pass:wörd"), false},
		{"swapped", basic("pass:wörd:oscar"), false},
		{"no colon", basic("oscar"), false},
		{"not base64", "Basic !!!", false},
		{"bearer with the password", "Bearer pass:wörd", false},
		{"two schemes", "Basic " + basic("oscar:pass:wörd"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/system/info", nil)
			if tt.header != "" {
				r.Header.Set("Authorization", tt.header)
			}
			caller, err := auth.Authenticate(r)
			if tt.ok {
				if err != nil || caller != (identity.Caller{Subject: "cluster_admin", Administrator: true}) {
					t.Fatalf("got %+v, %v", caller, err)
				}
				return
			}
			if !errors.Is(err, identity.ErrUnauthenticated) || caller != (identity.Caller{}) {
				t.Fatalf("got %+v, %v; want ErrUnauthenticated", caller, err)
			}
		})
	}
}

// Credentials in the URL are no credentials: they would end up in logs.
func TestBasicIgnoresTheURL(t *testing.T) {
	auth, err := identity.NewBasic("oscar", "secret")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://oscar:secret@example.org/system/info", nil)
	if _, err := auth.Authenticate(r); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Fatalf("got %v", err)
	}
}

func TestNewBasicRefusesEmpty(t *testing.T) {
	for _, c := range [][2]string{{"", "x"}, {"x", ""}, {"", ""}} {
		if _, err := identity.NewBasic(c[0], c[1]); err == nil {
			t.Errorf("user %q and password %q were accepted", c[0], c[1])
		}
	}
}
