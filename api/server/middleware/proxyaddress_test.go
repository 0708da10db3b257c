package middleware

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

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
		if got := addressBehind(r, trusted); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// addressBehind is the address that counts for a request, with trusted proxies.
func addressBehind(r *http.Request, trusted []netip.Prefix) (address string) {
	behindProxies(trusted)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { address = addressOf(r) })).ServeHTTP(nil, r)
	return address
}
