package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// TestLoginNeedsNoCredentials: who is not logged in yet asks how to, and a cache may keep the answer.
func TestLoginNeedsNoCredentials(t *testing.T) {
	c := newClient(t, &fake{}, func(cfg *server.Config) {
		cfg.LoginIssuers = []v1.LoginIssuer{{Issuer: "https://login.example.org/eu", ClientID: "oscarfed", Scopes: []string{"openid"}}}
	})
	resp := c.do("GET", "/system/login", "", "Authorization", "")
	want(t, resp, http.StatusOK, jsonType, `{"issuers":[{"issuer":"https://login.example.org/eu","client_id":"oscarfed","scopes":["openid"]}]}`)
	if got := resp.Header.Get("Cache-Control"); got != "public, max-age=300" {
		t.Errorf("Cache-Control: %s", got)
	}
	want(t, newClient(t, &fake{}).do("GET", "/system/login", "", "Authorization", ""), http.StatusOK, jsonType, `{"issuers":[]}`)
}

func TestWhoAmI(t *testing.T) {
	ask := func(c *client, header ...string) (out v1.WhoAmI) {
		t.Helper()
		resp := c.do("GET", "/system/whoami", "", header...)
		body := bodyOf(t, resp)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
		}
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	admin := ask(newClient(t, &fake{}))
	if !admin.Administrator || admin.Owner != "cluster_admin" || admin.TokenExpiresAt != nil || !slices.Contains(admin.Rights, v1.RightClusters) {
		t.Errorf("the administrator is %+v", admin)
	}

	i := issuer.New(t, "")
	schemes := bearers(t, i, nil)
	i.User("somebody", map[string]any{"name": "Some Body", "group_membership": []string{"physics", "chess"}})
	i.User("control", map[string]any{"name": "a\x1b[31mb", "preferred_username": "c", "group_membership": []string{"physics"}})
	c := newClient(t, &fake{}, func(cfg *server.Config) { cfg.Authenticator = schemes })
	expiry := time.Now().Add(10 * time.Minute).Truncate(time.Second)
	got := ask(c, "Authorization", "Bearer "+i.Token("somebody", map[string]any{"exp": expiry.Unix(), "azp": "oscarfed"}))
	if got.Subject != "somebody" || got.Owner != "somebody" || got.Name != "Some Body" || got.Administrator || got.Issuer != i.URL || got.ClientID != "oscarfed" ||
		!slices.Equal(got.Groups, []string{"physics", "chess"}) || !slices.Equal(got.Rights, []string{v1.RightOwn, v1.RightStorage}) ||
		got.TokenExpiresAt == nil || !got.TokenExpiresAt.Equal(expiry) {
		t.Errorf("the user is %+v", got)
	}
	if got := ask(c, "Authorization", "Bearer "+i.Token("control", nil)); got.Name != "" {
		t.Errorf("a name that is no text for one line is shown: %q", got.Name)
	}
}
