package server_test

import (
	"net/http/httptest"
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
