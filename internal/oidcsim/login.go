package oidcsim

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// How long a login may take, by which way.
const (
	codeLife   = time.Minute
	deviceLife = 10 * time.Minute
)

// login is one that a user has done.
type login struct {
	subject, scope, nonce string
}

// code is an authorization code that waits for its client.
type code struct {
	login
	client, redirect, challenge string
	until                       time.Time
}

// device is a device that waits for its user.
type device struct {
	login
	client, challenge string
	userCode          string
	until             time.Time
	// refused is set when the user said no; without it and a subject, the user has not come yet.
	refused bool
}

// authorize answers the authorization endpoint: a page for the user and, once the user has said who
// it is, the way back to the client with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	p.mu.Lock()
	demanded := p.granted.ClientID
	p.mu.Unlock()
	switch {
	case err != nil || !loopback(back) || back.Fragment != "":
		http.Error(w, "redirect_uri must be on this machine, such as http://127.0.0.1:1234/callback", http.StatusBadRequest)
		return
	case q.Get("client_id") == "" || demanded != "" && q.Get("client_id") != demanded:
		http.Error(w, "client_id is not one that is known here", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	switch {
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "":
		answer.Set("error", "invalid_request")
		answer.Set("error_description", "a code with PKCE (S256) is given, and nothing else")
	default:
		subject, done := p.page(w, r, "")
		if !done {
			return
		}
		if subject == "" {
			answer.Set("error", "access_denied")
			break
		}
		answer.Set("code", p.newCode(&code{
			login:  login{subject: subject, scope: q.Get("scope"), nonce: q.Get("nonce")},
			client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), until: time.Now().Add(codeLife),
		}))
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther) //nolint:gosec // to this machine alone: loopback
}

func (p *Provider) newCode(c *code) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := "code-" + rand.Text()
	p.codes[name] = c
	return name
}

// redeemCode takes a code once.
func (p *Provider) redeemCode(r *http.Request, client string) (*login, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := r.PostForm.Get("code")
	c, ok := p.codes[name]
	delete(p.codes, name)
	if !ok || time.Now().After(c.until) || c.client != client || c.redirect != r.PostForm.Get("redirect_uri") ||
		!proves(r.PostForm.Get("code_verifier"), c.challenge) {
		return nil, &refusal{http.StatusBadRequest, "invalid_grant"}
	}
	return &c.login, nil
}

// proves says whether a verifier is that of a challenge (RFC 7636 4.6).
func proves(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}

// authorizeDevice answers the device authorization endpoint (RFC 8628 3.1).
func (p *Provider) authorizeDevice(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	client, ok := p.granted.client(r)
	change := p.granted.Change
	p.mu.Unlock()
	if !ok {
		write(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	name, text := "device-"+rand.Text(), rand.Text()
	d := &device{
		login: login{scope: r.PostForm.Get("scope")}, client: client, challenge: r.PostForm.Get("code_challenge"),
		userCode: text[:4] + "-" + text[4:8], until: time.Now().Add(deviceLife),
	}
	p.mu.Lock()
	p.devices[name] = d
	p.mu.Unlock()
	answer := map[string]any{
		"device_code": name, "user_code": d.userCode, "verification_uri": p.URL + "/device",
		"verification_uri_complete": p.URL + "/device?" + url.Values{"user_code": {d.userCode}}.Encode(),
		"expires_in":                int64(deviceLife / time.Second), "interval": 1,
	}
	change("/device/authorize", answer)
	write(w, http.StatusOK, answer)
}

// redeemDevice takes a device's code once its user has come.
func (p *Provider) redeemDevice(r *http.Request, client string) (*login, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := r.PostForm.Get("device_code")
	d, ok := p.devices[name]
	bad := func(code string) (*login, *refusal) { return nil, &refusal{http.StatusBadRequest, code} }
	switch {
	case !ok || d.client != client || d.challenge != "" && !proves(r.PostForm.Get("code_verifier"), d.challenge):
		return bad("invalid_grant")
	case time.Now().After(d.until):
		return bad("expired_token")
	case d.refused:
		return bad("access_denied")
	case d.subject == "":
		return bad("authorization_pending")
	}
	delete(p.devices, name)
	return &d.login, nil
}

// verifyDevice is the page on which a user types the code of a device.
func (p *Provider) verifyDevice(w http.ResponseWriter, r *http.Request) {
	subject, done := p.page(w, r, r.URL.Query().Get("user_code"))
	if !done {
		return
	}
	if !p.Decide(r.PostForm.Get("user_code"), subject) {
		http.Error(w, "There is no such code, or it has expired.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "Done. Go back to your device; this page can be closed.\n") // the browser has gone: the error has no reader
}

// Decide has a subject log in on the device that shows a code; an empty subject says no. It is false
// when no device shows it.
func (p *Provider) Decide(userCode, subject string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if strings.EqualFold(d.userCode, strings.TrimSpace(userCode)) && time.Now().Before(d.until) && d.subject == "" && !d.refused {
			d.subject, d.refused = subject, subject == ""
			return true
		}
	}
	return false
}

// page shows the page that asks who the user is. It is done when the user has answered: a subject, or
// none for a no.
func (p *Provider) page(w http.ResponseWriter, r *http.Request, userCode string) (subject string, done bool) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.Method != http.MethodPost {
		h.Set("Content-Type", "text/html; charset=utf-8")
		_ = loginPage().Execute(w, struct {
			Device   bool
			UserCode string
			Subjects []string
		}{r.URL.Path == p.base+"/device", userCode, p.subjects()})
		return "", false
	}
	// Another site's page must not log its visitor in as somebody.
	if err := http.NewCrossOriginProtection().Check(r); err != nil || r.ParseForm() != nil {
		http.Error(w, "only this page's own form", http.StatusForbidden)
		return "", false
	}
	if r.PostForm.Get("answer") == "no" {
		return "", true
	}
	subject = r.PostForm.Get("subject")
	p.mu.Lock()
	_, known := p.info[subject]
	right := subtle.ConstantTimeCompare([]byte(p.passwords[subject]), []byte(r.PostForm.Get("password"))) == 1
	p.mu.Unlock()
	if !known || !right {
		http.Error(w, "The user or the password is wrong.", http.StatusForbidden)
		return "", false
	}
	return subject, true
}

func loginPage() *template.Template {
	return template.Must(template.New("login").Parse(`<!doctype html><html lang="en"><title>Log in</title><h1>Log in</h1>
<form method="post">
{{if .Device}}<p><label>Code shown by your device: <input name="user_code" value="{{.UserCode}}" required></label></p>{{end}}
<p><label>User: <select name="subject">{{range .Subjects}}<option>{{.}}</option>{{end}}</select></label></p>
<p><label>Password: <input name="password" type="password"></label></p>
<p><button name="answer" value="yes">Log in</button> <button name="answer" value="no">Refuse</button></p>
</form></html>
`))
}

// loopback says whether a URL is on this machine.
func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return (u.Scheme == "http" || u.Scheme == "https") && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
