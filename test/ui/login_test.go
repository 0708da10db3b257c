package ui_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/openid"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAUserLogsInAtAnIssuerAndSeesHisOwn: with a code and a proof key at a real provider. What is
// another's is not shown, and no token is kept anywhere.
func TestAUserLogsInAtAnIssuerAndSeesHisOwn(t *testing.T) {
	w, realm := withIssuer(t)
	if status, _, body := w.Do("POST", "/system/services", definition("ghcr.io/grycap/imagemagick:1")); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	realm.User("62bb11b4@science.example", map[string]any{"group_membership": []string{world.Group}, "name": markup})
	s := open(t, w)
	s.Until("document.querySelector('.login .or')")
	s.accessible("login at an issuer")
	s.atIssuer("/federations")
	s.shows("There is no federation that you may see.")
	s.shows(markup) // what users call themselves is text
	var kept string
	s.Eval("JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.cookie + location.search", &kept)
	if kept != "{}{}" {
		t.Errorf("the browser keeps %s", kept)
	}
	s.goTo("/audit", "Audit")
	s.shows("Nothing was done yet.") // by him, or about what is his
	s.goTo("/account", "Who am I")
	s.shows("62bb11b4@science.example")
	s.Click("Log out")
	s.shows("Log in to oscarfed")
}

// TestAUserMakesAServiceAndSeesHisBuckets, and nobody else's.
func TestAUserMakesAServiceAndSeesHisBuckets(t *testing.T) {
	w, realm := withIssuer(t)
	w.AwaitStreams(w.CP)
	w.Cluster("oscar-cluster-b").Sim.PutBucket("of-somebody-else", "secret.txt")
	realm.User("62bb11b4@science.example", map[string]any{"group_membership": []string{world.Group}, "name": "Ann"})
	s := open(t, w)
	s.Until("document.querySelector('.login .or')")
	s.atIssuer("/create")
	s.Until("document.querySelector('.definition')")
	s.Fill(fdlArea, "functions:\n  oscar:\n  - oscar-cluster-b:\n      name: grayify\n      image: i\n      cpu: 0.1\n      memory: 64Mi\n      script: |\n        true\n"+
		"      output:\n      - storage_provider: minio.default\n        path: hisbucket/out\n")
	s.Click("Show the plan")
	s.Click("Create it")
	s.shows("grayify is ready")
	s.goTo("/audit", "Audit")
	s.Until("document.querySelectorAll('tbody tr').length === 2") // accepted, and done
	s.goTo("/data", "Data")
	s.shows("hisbucket")
	var seen string
	s.Eval("document.body.textContent", &seen)
	if strings.Contains(seen, "of-somebody-else") {
		t.Errorf("a user sees another's bucket: %s", seen)
	}
	s.goTo("/data/oscar-cluster-b/of-somebody-else", "of-somebody-else")
	s.shows("is not authorised")
}

// withIssuer is a world whose users log in at a real provider.
func withIssuer(t *testing.T) (*world.World, *openid.Realm) {
	t.Helper()
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
	return world.New(t, world.Options{Names: []string{"grayify"}, Issuer: realm, API: func(cfg *server.Config) {
		cfg.LoginIssuers = []v1.LoginIssuer{{Issuer: realm.Issuer(), ClientID: "page"}}
	}}), realm
}

// atIssuer logs in there, and opens a view.
func (s *site) atIssuer(view string) {
	s.t.Helper()
	s.Eval(fmt.Sprintf("location.hash = %q; document.querySelector('.login button[type=button]').click()", view), nil)
	s.Visited(s.w.API + "/ui?")
}

// TestLoggingOutDuringARenewalLeavesNoToken: what the issuer answers after that is revoked, too.
func TestLoggingOutDuringARenewalLeavesNoToken(t *testing.T) {
	w, realm := withIssuer(t)
	realm.User("62bb11b4@science.example", map[string]any{"group_membership": []string{world.Group}, "name": "Ann"})
	s := open(t, w)
	s.Until("document.querySelector('.login .or')")
	s.atIssuer("/account")
	s.shows("62bb11b4@science.example")
	s.Eval(`{ const real = window.fetch, now = Date.now;
		const asked = Promise.withResolvers(), answer = Promise.withResolvers(), revoked = Promise.withResolvers();
		window.renewal = { asked: asked.promise, answer: answer.resolve, revoked: revoked.promise };
		window.fetch = async (path, call) => {
			const form = call?.body instanceof URLSearchParams ? call.body : new URLSearchParams();
			if (form.get('grant_type') === 'refresh_token') {
				asked.resolve(true);
				await answer.promise;
				return new Response(JSON.stringify({access_token: 'late', refresh_token: 'late as well'}));
			}
			if (!form.has('token')) return real(path, call);
			if (form.get('token') === 'late as well') revoked.resolve(true);
			return new Response('');
		};
		Date.now = () => now() + 3600000;
	} location.hash = '/audit'; 0`, nil)
	s.Eval("window.renewal.asked", nil)
	s.Click("Log out")
	s.shows("Log in to oscarfed")
	s.Eval("window.renewal.answer(), window.renewal.revoked", nil)
}

// TestADraftComesBackFromTheIssuer: the session ends while a definition is typed, and its user logs
// in again. Nothing stays in the browser, and a draft with a secret is not put there at all.
func TestADraftComesBackFromTheIssuer(t *testing.T) {
	w, realm := withIssuer(t)
	realm.User("62bb11b4@science.example", map[string]any{"group_membership": []string{world.Group}, "name": "Ann"})
	s := open(t, w)
	s.Until("document.querySelector('.login .or')")
	s.atIssuer("/create")
	for _, c := range []struct {
		more string
		back bool
	}{{"", true}, {"      environment:\n        secrets:\n          a: b\n", false}} {
		s.Until("document.querySelector('.definition')")
		s.Fill(fdlArea, "functions:\n  oscar:\n  - oscar-cluster-a:\n      name: typed\n      image: i\n"+c.more)
		s.Eval(`{ const real = window.fetch; window.fetch = async (path, call) =>
			String(path).startsWith('/system/') && path !== '/system/login' ? new Response('', {status: 401}) : real(path, call);
		} location.hash = '/account'; 0`, nil)
		s.shows("Your session has ended")
		s.Until("document.querySelector('.login .or')")
		s.atIssuer("/create")
		s.Until("document.querySelector('.definition')")
		if back := strings.Contains(s.fdl(), "name: typed"); back != c.back {
			t.Errorf("with %q the draft is back: %v", c.more, back)
		}
		var kept string
		s.Eval("JSON.stringify(sessionStorage)", &kept)
		if kept != "{}" {
			t.Errorf("the browser keeps %s", kept)
		}
	}
}
