package browser_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/browser"
	"github.com/oscarfed/oscarfed/test/world"
)

// script reads as whom it runs, and writes what it learns into the page.
const script = `<!DOCTYPE html><html><body>the answer of a function<script>
var x = new XMLHttpRequest(); x.open('GET', '/system/clusters', false); x.send();
document.body.setAttribute('data-read', x.responseText);
</script></body></html>`

// federation is one cluster with a service, whose function answers with a page.
type federation struct {
	*world.World
	runs atomic.Int32
}

const definition = `{"name":"page","cluster_id":"a","image":"i","script":"s","federation":{"topology":"star","members":[]}}`

func newFederation(t *testing.T, origins ...string) *federation {
	t.Helper()
	f := &federation{}
	f.World = world.New(t, world.Options{
		Clusters: []string{"a"},
		API:      func(cfg *server.Config) { cfg.Origins = origins },
		Sim: func(cfg *oscarsim.Config) {
			cfg.Function = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.runs.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = io.WriteString(w, script)
			})
		},
	})
	if status, _, body := f.Do("POST", "/system/services", definition); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	return f
}

// login is the administrator's browser, which remembers his password for the API.
func (f *federation) login(t *testing.T) *browser.Browser {
	t.Helper()
	b := browser.Open(t)
	known := strings.Replace(f.API, "http://", "http://"+world.User+":"+world.Password+"@", 1)
	b.Visit(known+"/system/info", known)
	if d := b.Visit(f.API+"/system/clusters", f.API); d.Status != http.StatusOK {
		t.Fatalf("the browser does not remember the password: %+v", d)
	}
	return b
}

// site is a web site of somebody else: another origin, and another site, than the API.
func site(t *testing.T, page func(path string) string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>"+page(r.URL.Path)+"</body></html>")
	}))
	t.Cleanup(srv.Close)
	return strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
}

// form is one that sends itself. Its one field makes JSON of what a form sends as text.
func form(action, body string) string {
	name, value, _ := strings.Cut(body, "=")
	return fmt.Sprintf(`<form method="POST" enctype="text/plain" action="%s"><input name="%s" value="%s"></form><script>document.forms[0].submit()</script>`,
		action, html.EscapeString(name), html.EscapeString(value))
}

// fetch sends what a script may send to another origin without asking, and goes on when
// it is answered.
func fetch(address, body string) string {
	return fmt.Sprintf(`<script>fetch(%q, {method: 'POST', mode: 'no-cors', credentials: 'include', body: %q}).finally(() => { location.href = '/done' })</script>`, address, body)
}

// TestAPageOfSomebodyElseUsesTheRememberedPassword: it is refused whatever it sends, and
// nothing is changed.
func TestAPageOfSomebodyElseUsesTheRememberedPassword(t *testing.T) {
	f := newFederation(t, "https://dashboard.example.org")
	const evil = `{"cluster_id":"evil","endpoint":"http://127.0.0.1:1/x=y"}`
	const service = `{"name":"evil","cluster_id":"a","image":"i","script":"x=y"}`
	attacks := map[string]string{
		"register":  form(f.API+"/system/clusters", evil),
		"key":       form(f.API+"/system/clusters/a/join", `{"replace_key":true,"x":"="}`),
		"service":   form(f.API+"/system/services", service),
		"job":       form(f.API+"/job/page", "event=1"),
		"run":       form(f.API+"/run/page", "event=1"),
		"fetch":     fetch(f.API+"/system/services", service),
		"fetch run": fetch(f.API+"/run/page", "event"),
	}
	foreign := site(t, func(path string) string { return attacks[strings.ReplaceAll(strings.TrimPrefix(path, "/"), "_", " ")] })
	before := f.state(t)
	b := f.login(t)
	for name, attack := range attacks {
		until := f.API
		if strings.HasPrefix(attack, "<script>") {
			until = foreign + "/done"
		}
		d := b.Visit(foreign+"/"+strings.ReplaceAll(name, " ", "_"), until)
		if until == f.API && d.Status != http.StatusForbidden {
			t.Errorf("%s: the browser was answered %d", name, d.Status)
		}
	}
	if after := f.state(t); after != before {
		t.Errorf("the pages have changed something:\n%s\n%s", before, after)
	}
	if n := f.runs.Load(); n != 0 {
		t.Errorf("the pages have run the function %d times", n)
	}
}

// TestAnAnswerOfAFunctionIsNoPageOfTheAPI: it is shown, and its script does not run.
func TestAnAnswerOfAFunctionIsNoPageOfTheAPI(t *testing.T) {
	var f *federation
	dashboard := site(t, func(string) string { return form(f.API+"/run/page", "event=1") })
	f = newFederation(t, dashboard)
	b := f.login(t)
	if d := b.Visit(dashboard, f.API); d.Status != http.StatusOK {
		t.Fatalf("a page that --cors-origins names was answered %d", d.Status)
	}
	text, attributes := b.Shown()
	if !strings.Contains(text, "the answer of a function") {
		t.Errorf("it is not shown: %s", text)
	}
	if read, ran := attributes["data-read"]; ran {
		t.Errorf("its script ran, and read with the rights of the administrator: %s", read)
	}
	if n := f.runs.Load(); n != 1 {
		t.Errorf("the function ran %d times", n)
	}
}

// state is what the pages want to change.
func (f *federation) state(t *testing.T) string {
	t.Helper()
	clusters, err := f.Client.Clusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := f.Client.Jobs(t.Context(), client.JobQuery{})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d jobs", len(jobs.Jobs))
	for _, c := range clusters {
		text += fmt.Sprintf(", cluster %s %s %v", c.ClusterID, c.UID, c.Joined)
	}
	for _, s := range f.Cluster("a").Sim.Services() {
		text += fmt.Sprintf(", service %v", s)
	}
	return text
}
