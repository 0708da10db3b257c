package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/test/issuer"
)

func TestLoginByDeviceCode(t *testing.T) {
	i := start(t, issuer.Grants{})
	p := discovered(t, i)
	shown := make(chan Prompt, 1)
	go func() {
		prompt := <-shown
		if prompt.Code == "" || !strings.Contains(prompt.Complete, prompt.Code) || prompt.URL != i.URL+"/device" {
			t.Errorf("shown: %+v", prompt)
		}
		browse(t, prompt.Complete, url.Values{"subject": {alice}, "user_code": {prompt.Code}})
	}()
	r, err := p.Device(t.Context(), func(p Prompt) { shown <- p })
	if err != nil {
		t.Fatal(err)
	}
	if subject, _, err := i.Check(t.Context(), r.AccessToken); err != nil || subject != alice || r.RefreshToken == "" || r.Issuer != i.URL || r.ClientID != client {
		t.Errorf("logged in as %q: %+v, %v", subject, r, err)
	}
	if left := time.Until(r.Expires); left < 58*time.Minute || left > time.Hour {
		t.Errorf("it expires in %s", left)
	}
}

func TestARefusedDeviceIsNotLoggedIn(t *testing.T) {
	i := start(t, issuer.Grants{})
	_, err := discovered(t, i).Device(t.Context(), func(p Prompt) { i.Decide(p.Code, "") })
	if exit.StatusOf(err) != exit.NotAuthorised || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}

// An issuer that is away while a person logs in on another machine is asked again.
func TestADeviceLoginOutlastsAnIssuerThatIsAway(t *testing.T) {
	var asked atomic.Int32
	i := start(t, issuer.Grants{Before: func() int {
		if asked.Add(1) == 1 {
			return http.StatusBadGateway
		}
		return 0
	}})
	r, err := discovered(t, i).Device(t.Context(), func(p Prompt) { i.Decide(p.Code, alice) })
	if err != nil || r.AccessToken == "" || asked.Load() < 2 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}

func TestLoginByBrowser(t *testing.T) {
	i := start(t, issuer.Grants{})
	p := discovered(t, i)
	done := make(chan struct{})
	r, err := p.Browser(t.Context(), func(page string) {
		go func() {
			defer close(done)
			if status, body := browse(t, page, as(alice)); status != http.StatusOK || !strings.Contains(body, "terminal") {
				t.Errorf("the last page: %d %q", status, body)
			}
		}()
	})
	<-done
	if err != nil {
		t.Fatal(err)
	}
	if subject, _, err := i.Check(t.Context(), r.AccessToken); err != nil || subject != alice || r.RefreshToken == "" {
		t.Errorf("logged in as %q, %v", subject, err)
	}
}

// callbackOf is where a page sends its browser back.
func callbackOf(t *testing.T, page string) (back *url.URL, state string) {
	t.Helper()
	u, err := url.Parse(page)
	if err == nil {
		back, err = url.Parse(u.Query().Get("redirect_uri"))
	}
	if err != nil {
		t.Error(err)
	}
	return back, u.Query().Get("state")
}

// What comes to the loopback and is not the answer of this login at this issuer logs nobody in, and is
// not sent to the issuer.
func TestTheBrowsersAnswerIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(state, issuer string) url.Values
		says   string
	}{
		"another login's": {func(string, string) url.Values { return url.Values{"state": {"x"}, "code": {"c"}} }, "another login"},
		"no state":        {func(string, string) url.Values { return url.Values{"code": {"c"}} }, "another login"},
		"another issuer's": {func(s, _ string) url.Values {
			return url.Values{"state": {s}, "code": {"c"}, "iss": {"https://evil.example"}}
		}, "another issuer"},
		"refused":           {func(s, i string) url.Values { return url.Values{"state": {s}, "error": {"access_denied"}, "iss": {i}} }, "refused"},
		"an error":          {func(s, _ string) url.Values { return url.Values{"state": {s}, "error": {"server\x1b[31m_error"}} }, `\x1b`},
		"without a code":    {func(s, _ string) url.Values { return url.Values{"state": {s}} }, "without a code"},
		"a code of nothing": {func(s, _ string) url.Values { return url.Values{"state": {s}, "code": {"code-canary"}} }, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, issuer.Grants{})
			_, err := discovered(t, i).Browser(t.Context(), func(page string) {
				back, state := callbackOf(t, page)
				foreign := *back
				foreign.Path = "/elsewhere"
				if status, _ := fetch(t, foreign.String(), ""); status != http.StatusNotFound {
					t.Errorf("another path answers %d", status)
				}
				if status, _ := fetch(t, back.String(), "rebound.example"); status != http.StatusNotFound {
					t.Errorf("another host's name answers %d", status)
				}
				back.RawQuery = c.answer(state, i.URL).Encode()
				if status, _ := fetch(t, back.String(), ""); status != http.StatusOK {
					t.Errorf("the answer is not taken: %d", status)
				}
			})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
		})
	}
}

// fetch sends one request, under the name of a host if one is given.
func fetch(t *testing.T, address, host string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	req.Host = host
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Error(err)
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// A hostile issuer gets no token of another, sends nothing in clear, and opens no page but one by https.
func TestAHostileIssuer(t *testing.T) {
	const discovery, token, device = "/.well-known/openid-configuration", "/token", "/device/authorize"
	set := func(where, key string, value any) func(string, map[string]any) {
		return func(path string, answer map[string]any) {
			if path == where {
				answer[key] = value
			}
		}
	}
	for name, change := range map[string]func(string, map[string]any){
		"is another issuer":              set(discovery, "issuer", "https://good.example"),
		"takes tokens in clear":          set(discovery, "token_endpoint", "http://evil.example/token"),
		"takes devices in clear":         set(discovery, "device_authorization_endpoint", "http://evil.example/device"),
		"revokes in clear":               set(discovery, "revocation_endpoint", "http://evil.example/revoke"),
		"has credentials in an endpoint": set(discovery, "token_endpoint", "https://a:b@evil.example/token"),
		"opens a script":                 set(device, "verification_uri", "javascript:alert(1)"),
		"opens a file":                   set(device, "verification_uri_complete", "file:///etc/passwd"),
		"shows no code":                  set(device, "user_code", ""),
		"waits backwards": func(p string, a map[string]any) {
			set(device, "interval", -5)(p, a)
			set(token, "access_token", "")(p, a)
		},
		"gives a line break":        set(token, "access_token", "a\r\nX-Evil: 1"),
		"gives a giant":             set(token, "access_token", strings.Repeat("x", maxToken+1)),
		"gives a bad refresh token": set(token, "refresh_token", "a b"),
		"gives another's ID token":  set(token, "id_token", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJib2IifQ."),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := start(t, issuer.Grants{Change: change})
			p, err := Discover(t.Context(), i.URL, client)
			if err == nil {
				defer p.Close()
				var r Record
				r, err = p.Device(t.Context(), func(p Prompt) { i.Decide(p.Code, alice) })
				if r.AccessToken != "" || r.RefreshToken != "" {
					t.Errorf("there is a login: %+v", r)
				}
			}
			if err == nil || !strings.Contains(err.Error(), "issuer") {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Discover(t.Context(), "http://login.example.org", client); exit.StatusOf(err) != exit.Usage {
		t.Errorf("an issuer that is reached in clear: %v", err)
	}
}

// The ID token of a browser's login is needed: it says which login it answers.
func TestAnIDTokenOfAnotherLoginIsRefused(t *testing.T) {
	var i *issuer.Issuer
	for name, id := range map[string]func() any{
		"none":             func() any { return "" },
		"another nonce":    func() any { return i.Token(alice, map[string]any{"aud": client, "nonce": "other"}) },
		"another client's": func() any { return i.Token(alice, map[string]any{"aud": "another"}) },
	} {
		t.Run(name, func(t *testing.T) {
			i = start(t, issuer.Grants{Change: func(path string, answer map[string]any) {
				if path == "/token" {
					answer["id_token"] = id()
				}
			}})
			_, err := discovered(t, i).Browser(t.Context(), func(page string) { go browse(t, page, as(alice)) })
			if err == nil {
				t.Error("it is a login")
			}
		})
	}
}

// A person can end a login at an issuer that does not answer.
func TestASlowIssuerIsGivenUp(t *testing.T) {
	i := start(t, issuer.Grants{})
	p := discovered(t, i)
	release := i.Hang()
	defer release()
	why := errors.New("somebody pressed a key")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Device(ctx, func(Prompt) {})
		done <- err
	}()
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// The clock of this machine may be a day wrong: lives are counted from when a token was given.
func TestAWrongClockDoesNotKeepAnyoneFromLoggingIn(t *testing.T) {
	for _, wrong := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		i := start(t, issuer.Grants{})
		now := func() time.Time { return time.Now().Add(wrong) }
		p, err := discover(t.Context(), i.URL, client, now)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		r, err := p.Device(t.Context(), func(p Prompt) { i.Decide(p.Code, alice) })
		if err != nil {
			t.Fatalf("%s wrong: %v", wrong, err)
		}
		if left := r.Expires.Sub(now()); left < 58*time.Minute || left > time.Hour {
			t.Errorf("%s wrong: it expires in %s", wrong, left)
		}
		if off := p.Ahead() + wrong; off.Abs() > time.Minute {
			t.Errorf("%s wrong: the issuer is said to be %s ahead", wrong, p.Ahead())
		}
	}
}

func TestLogoutRevokes(t *testing.T) {
	i := start(t, issuer.Grants{})
	refresh := i.RefreshToken(alice)
	if ended, err := discovered(t, i).Revoke(t.Context(), Record{RefreshToken: refresh}); err != nil || !ended || !i.Revoked(refresh) {
		t.Errorf("%v %v", ended, err)
	}
	without := start(t, issuer.Grants{NoRevocation: true})
	if ended, err := discovered(t, without).Revoke(t.Context(), Record{RefreshToken: refresh}); err != nil || ended {
		t.Errorf("%v %v", ended, err)
	}
}

func TestTheIssuersScopesOfGroupsAreAskedFor(t *testing.T) {
	for _, c := range []struct{ supported, want string }{
		{"", "openid profile email offline_access"},
		{"openid profile groups offline_access", "openid profile offline_access groups"},
		{"profile entitlements eduperson_entitlement voperson_id", "openid profile entitlements eduperson_entitlement"},
	} {
		if got := strings.Join(scopes(strings.Fields(c.supported)), " "); got != c.want {
			t.Errorf("of an issuer with %q are asked for %q, want %q", c.supported, got, c.want)
		}
	}
}
