package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/openid"
	"github.com/oscarfed/oscarfed/test/world"
)

// door is the address that a browser knows, whichever process is behind it now.
type door struct {
	*httptest.Server
	mu     sync.Mutex
	behind *url.URL // nil while there is none
	// asked are the answers to its streams: the header that resumes, who asked, and the status.
	asked []asked
}

type asked struct {
	resumes, authorization string
	status                 int
}

func newDoor(t *testing.T, behind string) *door {
	t.Helper()
	d := &door{}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.behind != nil {
				r.SetURL(d.behind)
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if r := resp.Request; r.URL.Path == "/system/watch" && slices.Contains(r.URL.Query()["kind"], v1.EventFederation) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.asked = append(d.asked, asked{r.Header.Get("Last-Event-ID"), r.Header.Get("Authorization"), resp.StatusCode})
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		shut := d.behind == nil
		d.mu.Unlock()
		if shut {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		d.CloseClientConnections()
		d.Close()
	})
	d.leadsTo(behind)
	return d
}

// leadsTo lets requests through to an address; empty breaks off what is open and lets none through.
func (d *door) leadsTo(address string) {
	d.mu.Lock()
	d.behind = nil
	if address != "" {
		d.behind, _ = url.Parse(address)
	}
	d.mu.Unlock()
	if address == "" {
		d.CloseClientConnections()
	}
}

// streams are the answers that streams have got.
func (d *door) streams() []asked {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}

// openAt opens the page through a door.
func openAt(t *testing.T, w *world.World, d *door) *site {
	t.Helper()
	s := open(t, w)
	s.Visit(d.URL+"/ui", d.URL+"/ui")
	return s
}

// loses kills the control plane, lets something happen while there is none for the browser, and
// leads it to the next one.
func (s *site) loses(d *door, meanwhile func()) {
	s.t.Helper()
	d.leadsTo("")
	s.w.KillControlPlane(s.w.CP)
	s.shows("The connection was lost")
	s.w.Restart()
	meanwhile()
	d.leadsTo(s.w.API)
	s.Until("document.querySelector('.connected.live')")
}

func small(name string) string {
	return fmt.Sprintf(`{"name":%q,"cluster_id":"oscar-cluster-a","image":"i","script":"true","memory":"64Mi","cpu":"0.1"}`, name)
}

// does asks the API, which does it.
func (s *site) does(method, path, body string) {
	s.t.Helper()
	if status, _, answer := s.w.Do(method, path, body); status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}

// federations waits until the list has these, and no other.
func (s *site) federations(names ...string) {
	s.t.Helper()
	s.Until(fmt.Sprintf("[...document.querySelectorAll('tbody th[scope=row] a')].map((e) => e.textContent).sort().join() === %q", strings.Join(names, ",")))
}

// TestTheControlPlaneIsKilledAndComesBack: the page resumes with the password that it was given,
// and shows what came, changed and went meanwhile.
func TestTheControlPlaneIsKilledAndComesBack(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"stays", "goes", "comes"}})
	d := newDoor(t, w.API)
	s := openAt(t, w, d)
	s.admin()
	s.does("POST", "/system/services", small("stays"))
	s.does("POST", "/system/services", small("goes"))
	s.goTo("/federations", "Federations")
	s.federations("goes", "stays")
	s.loses(d, func() {
		s.does("POST", "/system/services", small("comes"))
		s.does("DELETE", "/system/services/goes?wait=60s", "")
	})
	s.federations("comes", "stays")
	if got := d.streams(); len(got) < 2 || got[0].resumes != "" || got[1].resumes == "" {
		t.Errorf("streams began with %+v", got)
	}
}

// TestAPlaceThatIsForgottenIsNotMissed: the changes of the outage are compacted, so that the next
// control plane answers 410. The page begins anew, without a hole and without a ghost.
func TestAPlaceThatIsForgottenIsNotMissed(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"stays", "goes", "comes"}, Forgets: true})
	d := newDoor(t, w.API)
	s := openAt(t, w, d)
	s.admin()
	s.does("POST", "/system/services", small("stays"))
	s.does("POST", "/system/services", small("goes"))
	s.goTo("/federations", "Federations")
	s.federations("goes", "stays")
	s.loses(d, func() {
		s.does("POST", "/system/services", small("comes"))
		s.does("DELETE", "/system/services/goes?wait=60s", "")
		storetest.Compact(t, w.As(access.Root), w.Revision())
		w.KillControlPlane(w.CP)
		w.Restart()
	})
	s.federations("comes", "stays")
	s.does("DELETE", "/system/services/stays?wait=60s", "")
	s.federations("comes")
	got := d.streams()
	if !slices.ContainsFunc(got, func(a asked) bool { return a.resumes != "" && a.status == http.StatusGone }) {
		t.Fatalf("no stream was refused: %+v", got)
	}
	if last := got[len(got)-1]; last.resumes != "" || last.status != http.StatusOK {
		t.Errorf("the last stream was begun with %+v", last)
	}
}

// TestATokenIsRenewedWhileTheControlPlaneIsLost: it runs out meanwhile, and the page goes on with
// another one, still seeing nothing but its user's own.
func TestATokenIsRenewedWhileTheControlPlaneIsLost(t *testing.T) {
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
	w := world.New(t, world.Options{Names: []string{"another", "another-later"}, Issuer: realm, API: func(cfg *server.Config) {
		cfg.LoginIssuers = []v1.LoginIssuer{{Issuer: realm.Issuer(), ClientID: "page", Scopes: []string{"openid", "profile", "groups"}}}
	}})
	realm.User("62bb11b4@science.example", map[string]any{"group_membership": []string{world.Group}, "name": "Ann"})
	d := newDoor(t, w.API)
	s := openAt(t, w, d)
	s.does("POST", "/system/services", small("another"))
	s.Until("document.querySelector('.login .or')")
	s.Eval("location.hash = '/federations'; document.querySelector('.login button[type=button]').click()", nil)
	s.Visited(d.URL + "/ui?")
	s.shows("There is no federation that you may see.")
	s.loses(d, func() {
		// An hour passes for the page alone: its token is at its end.
		s.Eval("{ const real = Date.now; Date.now = () => real() + 3_590_000; } 0", nil)
		s.does("POST", "/system/services", small("another-later"))
	})
	s.shows("There is no federation that you may see.")
	s.goTo("/account", "Who am I")
	s.shows("62bb11b4@science.example")
	var keeps string
	s.Eval("JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.cookie", &keeps)
	if keeps != "{}{}" {
		t.Errorf("the browser keeps %s", keeps)
	}
	got := d.streams()
	first, last := got[0], got[len(got)-1]
	if first.authorization == "" || last.authorization == first.authorization || last.status != http.StatusOK {
		t.Error("the stream was not resumed with another token")
	}
}

// TestATabThatNobodySeesHoldsNoConnection: its streams end, and go on where they were when it is
// seen again. The page does not call that a lost connection.
func TestATabThatNobodySeesHoldsNoConnection(t *testing.T) {
	var held atomic.Int32
	w := world.New(t, world.Options{Names: []string{"before", "meanwhile"}, Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/system/watch" && strings.HasPrefix(r.UserAgent(), "Mozilla") {
				held.Add(1)
				defer held.Add(-1)
			}
			next.ServeHTTP(w, r)
		})
	}})
	d := newDoor(t, w.API)
	s := openAt(t, w, d)
	s.admin()
	s.does("POST", "/system/services", small("before"))
	s.goTo("/federations", "Federations")
	s.Click("before")
	w.Eventually("the page has both streams", func() bool { return held.Load() == 2 })
	s.Eval(`{ window.was = new Set(); new MutationObserver(() => { window.was.add(document.querySelector('.connected')?.textContent); }).observe(document, {subtree: true, childList: true, characterData: true}); } 0`, nil)
	const become = "Object.defineProperty(document, 'visibilityState', {value: %q, configurable: true}); document.dispatchEvent(new Event('visibilitychange')); 0"
	s.Eval(fmt.Sprintf(become, "hidden"), nil)
	w.Eventually("the hidden page has no stream", func() bool { return held.Load() == 0 })
	s.does("POST", "/system/services", small("meanwhile"))
	s.Eval(fmt.Sprintf(become, "visible"), nil)
	s.goTo("/federations", "Federations")
	s.federations("before", "meanwhile")
	var lost bool
	s.Eval("window.was.has('Connection lost')", &lost)
	if got := d.streams(); lost || len(got) != 2 || got[1].resumes == "" {
		t.Errorf("lost: %v, streams began with %+v", lost, got)
	}
}
