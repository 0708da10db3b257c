package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/api/ui"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

func TestThePageAndWhatItLoads(t *testing.T) {
	c := newClient(t, &fake{starting: true})
	resp := c.do("GET", "/ui", "", "Authorization", "")
	index := bodyOf(t, resp)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" || resp.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("GET /ui: %d %v", resp.StatusCode, resp.Header)
	}
	policy := resp.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy has no %s: %s", part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "sandbox") {
		t.Errorf("the policy is %s", policy)
	}
	named := regexp.MustCompile(`(?:src|href)="/ui/([^"]+)"`).FindAllStringSubmatch(index, -1)
	if len(named) < 3 {
		t.Fatalf("the page loads %v", named)
	}
	for _, m := range named {
		resp := c.do("GET", "/ui/"+m[1], "", "Authorization", "")
		if resp.StatusCode != 200 || len(bodyOf(t, resp)) == 0 || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d", m[1], resp.StatusCode)
		}
		if forever := strings.Contains(resp.Header.Get("Cache-Control"), "immutable"); forever == (m[1] == ui.Icon) {
			t.Errorf("%s is kept: %s", m[1], resp.Header.Get("Cache-Control"))
		}
	}
}

// TestThePageHasNothingInline: the policy would stop it.
func TestThePageHasNothingInline(t *testing.T) {
	files, err := ui.Files()
	if err != nil {
		t.Fatal(err)
	}
	index := string(files[ui.Index])
	if found := regexp.MustCompile(`<style|style=|<script[^>]*>[^<]|\son[a-z]+=|https?://`).FindString(index); found != "" {
		t.Errorf("the page has %s", found)
	}
	for name := range files {
		if strings.HasSuffix(name, ".map") {
			t.Errorf("%s is a source map", name)
		}
	}
}

func TestThePageIsCompressedAndKept(t *testing.T) {
	files, err := ui.Files()
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, &fake{}).Handler()
	get := func(header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/ui", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	plain, zipped := get(), get("Accept-Encoding", "br, gzip")
	z, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(body, files[ui.Index]) || !bytes.Equal(plain.Body.Bytes(), files[ui.Index]) {
		t.Errorf("the page is another one: %v", err)
	}
	if plain.Header().Get("ETag") == zipped.Header().Get("ETag") {
		t.Error("both forms have the same ETag")
	}
	if again := get("If-None-Match", plain.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("asked again: %d", again.Code)
	}
}

// TestABrowserIsLedToThePage: other clients are told what an OSCAR tells them.
func TestABrowserIsLedToThePage(t *testing.T) {
	c := newClient(t, &fake{})
	resp := c.do("GET", "/", "", "Authorization", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "/ui" {
		t.Errorf("a browser got %d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		if resp := c.do("GET", "/", "", "Authorization", "", "Accept", accept); resp.StatusCode != 404 {
			t.Errorf("Accept %q got %d", accept, resp.StatusCode)
		}
	}
	for _, path := range []string{"/ui/nothing.js", "/ui/..%2fdoc.go", "/ui/dist/index.html"} {
		if resp := c.do("GET", path, "", "Authorization", ""); resp.StatusCode != 404 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// TestThePageMayCallItsIssuers: those that it can log in at, and no other host.
func TestThePageMayCallItsIssuers(t *testing.T) {
	c := newClient(t, &fake{}, func(cfg *server.Config) {
		cfg.LoginIssuers = []v1.LoginIssuer{
			{Issuer: "https://login.example.org:8443/realms/eu", ClientID: "oscarfed"},
			{Issuer: "https://only-tokens.example.org"},
			{Issuer: "https://evil.example.org;script-src *", ClientID: "x"},
		}
	})
	policy := c.do("GET", "/ui", "", "Authorization", "").Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "connect-src 'self' https://login.example.org:8443;") || strings.Contains(policy, "*") {
		t.Errorf("the policy is %s", policy)
	}
}

// TestTheUploadFrameReachesOneServer: its origin is opaque, and what stands in its address ends no directive.
func TestTheUploadFrameReachesOneServer(t *testing.T) {
	c := newClient(t, &fake{})
	for to, connect := range map[string]string{
		"https://minio.example.org:9000":      "https://minio.example.org:9000;",
		"http://[::1]:9000":                   "http://[::1]:9000;",
		"":                                    "'none';",
		"*":                                   "'none';",
		"https://*.example.org":               "'none';",
		"https://a.example.org; script-src *": "'none';",
		"https://a.example.org https://b.example.org":          "'none';",
		"https://a.example.org,default-src *":                  "'none';",
		"javascript://a.example.org":                           "'none';",
		"https://user@a.example.org":                           "https://a.example.org;",
		"https://a.example.org/path?query=; connect-src *#top": "https://a.example.org;",
	} {
		resp := c.do("GET", "/ui/upload.html?to="+url.QueryEscape(to), "", "Authorization", "")
		policy := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != 200 || !strings.Contains(policy, "connect-src "+connect) || strings.Contains(policy, "*") {
			t.Errorf("%q: %d %s", to, resp.StatusCode, policy)
		}
		if !strings.HasPrefix(policy, "sandbox allow-scripts;") || !strings.Contains(policy, "frame-ancestors 'self'") || resp.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%q: %v", to, resp.Header)
		}
	}
	if policy := c.do("GET", "/ui", "", "Authorization", "").Header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self';") {
		t.Errorf("the page itself: %s", policy)
	}
}
