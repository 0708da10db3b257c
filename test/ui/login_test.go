package ui_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/openid"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAUserLogsInAtAnIssuerAndSeesHisOwn: with a code and a proof key at a real provider. What is
// another's is not shown, and no token is kept anywhere.
func TestAUserLogsInAtAnIssuerAndSeesHisOwn(t *testing.T) {
	provider, err := openid.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := provider.Stop(); err != nil {
			t.Error(err)
		}
	})
	realm := provider.Realm(t, openid.Science)
	w := world.New(t, world.Options{Names: []string{"grayify"}, Issuer: realm, API: func(cfg *server.Config) {
		cfg.LoginIssuers = []v1.LoginIssuer{{Issuer: realm.Issuer(), ClientID: "page", Scopes: []string{"openid", "profile", "groups"}}}
	}})
	if status, _, body := w.Do("POST", "/system/services", definition("ghcr.io/grycap/imagemagick:1")); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	realm.User("62bb11b4@science.example", map[string]any{"group_membership": []string{world.Group}, "name": markup})
	s := open(t, w)
	s.Until("document.querySelector('.login .or')")
	s.accessible("login at an issuer")
	s.Eval("location.hash = '/federations'; document.querySelector('.login button[type=button]').click()", nil)
	s.Visited(w.API + "/ui?")
	s.shows("There is no federation that you may see.")
	s.shows(markup) // what users call themselves is text
	var kept string
	s.Eval("JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.cookie + location.search", &kept)
	if kept != "{}{}" {
		t.Errorf("the browser keeps %s", kept)
	}
	var audit bool
	s.Eval("[...document.querySelectorAll('.menu a')].some((e) => e.textContent === 'Audit')", &audit)
	if audit {
		t.Error("a user is offered the audit")
	}
	s.goTo("/account", "Who am I")
	s.shows("62bb11b4@science.example")
	s.Click("Log out")
	s.shows("Log in to oscarfed")
}
