package relay

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// jwt is a token that says of itself whose it is.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func configuration(access string) string {
	return fmt.Sprintf(`{"config":{"name":"oscar","namespace":"internal"},"minio_provider":{"endpoint":"https://minio","verify":true,"access_key":%q,"secret_key":"k","region":"r"},"allowed_image_repositories":["private/"]}`, access)
}

func answers(status int, body string) func(Outgoing) (*http.Response, error) {
	return func(Outgoing) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Set-Cookie": {"a=b"}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// A user's own keys are all that is passed on, and OSCAR is asked with his token alone:
// the control plane may be anybody's, and wants MinIO's root keys.
func TestOnlyAUsersOwnKeysArePassedOn(t *testing.T) {
	alice := jwt(`{"sub":"alice"}`)
	for name, c := range map[string]struct {
		token  string
		answer func(Outgoing) (*http.Response, error)
		status int
		word   string
		asked  bool
	}{
		"his own":                         {alice, answers(200, configuration("alice")), 200, "", true},
		"the root keys":                   {alice, answers(200, configuration("minio")), 403, v1.RelayNotAllowed, true},
		"no keys":                         {alice, answers(200, configuration("")), 403, v1.RelayNotAllowed, true},
		"no configuration":                {alice, answers(200, "<html>"), 403, v1.RelayNotAllowed, true},
		"no provider":                     {alice, answers(200, "{}"), 403, v1.RelayNotAllowed, true},
		"an answer that is too long":      {alice, answers(200, strings.Repeat(" ", 1<<20)+configuration("alice")), 403, v1.RelayNotAllowed, true},
		"OSCAR does not let him in":       {alice, answers(401, "a text of OSCAR's"), 401, "", true},
		"OSCAR fails":                     {alice, answers(500, "a text of OSCAR's"), 500, "", true},
		"OSCAR changes the protocol":      {alice, answers(101, ""), 502, "", true},
		"OSCAR is not reached":            {alice, func(Outgoing) (*http.Response, error) { return nil, errors.New("no route") }, 503, v1.RelayAway, true},
		"no token":                        {"", answers(200, configuration("minio")), 403, v1.RelayNotAllowed, false},
		"a service's token":               {strings.Repeat("a", 64), answers(200, configuration("minio")), 403, v1.RelayNotAllowed, false},
		"a token without a subject":       {jwt(`{}`), answers(200, configuration("")), 403, v1.RelayNotAllowed, false},
		"what is no token":                {"a.b.c", answers(200, configuration("")), 403, v1.RelayNotAllowed, false},
		"credentials behind a token":      {alice + " Basic", answers(200, configuration("minio")), 403, v1.RelayNotAllowed, false},
		"a token that is longer than any": {jwt(`{"sub":"alice","x":"` + strings.Repeat("x", 1<<14) + `"}`), answers(200, configuration("alice")), 403, v1.RelayNotAllowed, false},
	} {
		t.Run(name, func(t *testing.T) {
			site := &fakeSite{answer: c.answer}
			w := ask(site, Limits{}, "GET", "/config?x=y", http.Header{v1.RelayUserTokenHeader: {c.token}, v1.RelayServiceTokenHeader: {"t"}, "Authorization": {"Basic x"}}, http.NoBody)
			if w.Code != c.status || w.Header().Get(v1.RelayRefusedHeader) != c.word {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if (len(site.sent) > 0) != c.asked || c.asked && site.sent[0] != "GET /system/config? "+c.token {
				t.Errorf("OSCAR was asked %v", site.sent)
			}
			want := ""
			if c.status == 200 {
				want = `{"config":{},"minio_provider":{"endpoint":"https://minio","verify":true,"access_key":"alice","secret_key":"k","region":"r"},"allowed_image_repositories":[]}`
			}
			if c.word == "" && w.Body.String() != want || strings.Contains(w.Body.String(), "internal") || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("passed on: %v %s", w.Header(), w.Body)
			}
		})
	}
	if w := ask(&fakeSite{}, Limits{}, "HEAD", "/config", http.Header{v1.RelayUserTokenHeader: {alice}}, http.NoBody); w.Code != 403 {
		t.Errorf("HEAD: %d", w.Code)
	}
}
