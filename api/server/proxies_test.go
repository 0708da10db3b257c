package server_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
)

// tries sends logins from addresses to a server that allows 5 failures a second.
func tries(t *testing.T, change ...func(*server.Config)) func(address, pass string, headers ...string) int {
	t.Helper()
	handler := newServer(t, &fake{}, append(change, limited(5))...).Handler()
	return func(address, pass string, headers ...string) int {
		r := httptest.NewRequest("GET", "/system/services", nil)
		r.RemoteAddr = address
		r.SetBasicAuth(user, pass)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
}

// TestFailedLoginsOfOthersLockNobodyOut: credentials that were accepted from the same address
// within the hour still are. Others are limited, and so are the accepted ones from another
// address.
func TestFailedLoginsOfOthersLockNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		try := tries(t)
		flood := func(address string) {
			for range 100 {
				try(address, "guess")
			}
			if got := try(address, "guess"); got != 429 {
				t.Fatalf("guesses are not limited: %d", got)
			}
		}
		if got := try("192.0.2.1:1000", password); got != 200 {
			t.Fatal(got)
		}
		flood("192.0.2.1:1")
		if got := try("192.0.2.1:1000", password); got != 200 {
			t.Errorf("who was let in before is locked out: %d", got)
		}
		flood("192.0.2.2:1")
		if got := try("192.0.2.2:1000", password); got != 429 {
			t.Errorf("the right password is told from a wrong one at an address that nobody was let in from: %d", got)
		}
		<-time.After(61 * time.Minute)
		flood("192.0.2.1:1")
		if got := try("192.0.2.1:1000", password); got != 429 {
			t.Errorf("it is remembered for more than an hour: %d", got)
		}
	})
}

// TestForwardedFor: what trusted proxies say counts, read from the right, and nothing that
// anybody else can write.
func TestForwardedFor(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	const xff = "X-Forwarded-For"
	for name, tt := range map[string]struct {
		peer    string
		headers []string
		want    string
	}{
		"no proxy":                  {"192.0.2.1:1", []string{xff, "192.0.2.9"}, "192.0.2.1"},
		"a proxy":                   {"10.0.0.1:1", []string{xff, "192.0.2.9"}, "192.0.2.9"},
		"without a header":          {"10.0.0.1:1", nil, "10.0.0.1"},
		"two proxies":               {"10.0.0.1:1", []string{xff, "192.0.2.9, 10.0.0.2"}, "192.0.2.9"},
		"a caller who lies":         {"10.0.0.1:1", []string{xff, "127.0.0.1, 192.0.2.66, 192.0.2.9"}, "192.0.2.9"},
		"a lie in a second line":    {"10.0.0.1:1", []string{xff, "127.0.0.1", xff, "192.0.2.9"}, "192.0.2.9"},
		"a caller who is a proxy":   {"10.0.0.1:1", []string{xff, "10.0.0.3"}, "10.0.0.3"},
		"what is no address":        {"10.0.0.1:1", []string{xff, "192.0.2.9, x"}, "10.0.0.1"},
		"a port":                    {"10.0.0.1:1", []string{xff, "192.0.2.9:4711"}, "192.0.2.9"},
		"IPv6":                      {"[fd00::1]:1", []string{xff, "2001:db8::9"}, "2001:db8::9"},
		"IPv6 with a port":          {"[fd00::1]:1", []string{xff, "[2001:db8::9]:4711"}, "2001:db8::9"},
		"a mapped proxy":            {"[::ffff:10.0.0.1]:1", []string{xff, "::ffff:192.0.2.9"}, "192.0.2.9"},
		"Forwarded":                 {"10.0.0.1:1", []string{"Forwarded", `for=127.0.0.1, For="192.0.2.9:80";proto=https, for=10.0.0.2`}, "192.0.2.9"},
		"Forwarded of IPv6":         {"10.0.0.1:1", []string{"Forwarded", `proto=https;for="[2001:db8::9]"`}, "2001:db8::9"},
		"Forwarded that hides":      {"10.0.0.1:1", []string{"Forwarded", `for=_hidden`}, "10.0.0.1"},
		"both, one of them unasked": {"10.0.0.1:1", []string{xff, "192.0.2.66", "Forwarded", "for=192.0.2.9"}, "10.0.0.1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.peer
		for i := 0; i < len(tt.headers); i += 2 {
			r.Header.Add(tt.headers[i], tt.headers[i+1])
		}
		if got := server.AddressBehind(r, trusted); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
