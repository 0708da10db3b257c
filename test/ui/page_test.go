package ui_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/world"
)

const markup = `<img src=x onerror="document.title='hacked'">`

func definition(image string) string {
	return fmt.Sprintf(`{"name":"grayify","cluster_id":"oscar-cluster-a","image":%q,"script":"echo '</code>%s'","memory":"256Mi","cpu":"0.1",
		"federation":{"group_id":"grayify","topology":"star","delegation":"static","members":[
			{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayify","priority":0},{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayify","priority":1}]}}`,
		image, strings.ReplaceAll(markup, `"`, `\"`))
}

// TestThePageShowsAFederationLive: from nothing to ready, broken and repaired, changed and taken
// back, while the page is open.
func TestThePageShowsAFederationLive(t *testing.T) {
	lost := newOutage()
	w := world.New(t, world.Options{Names: []string{"grayify"}, Middleware: lost.middleware, Sim: world.QuickJobs})
	s := open(t, w)
	s.accessible("login")
	s.narrow("login")
	s.login(world.User, "wrong")
	s.shows("does not accept this name and password")
	s.admin()
	s.shows("Nothing is wrong")
	s.accessible("overview")

	s.goTo("/federations", "Federations")
	s.shows("There is no federation that you may see.")
	s.accessible("no federations")
	if status, _, body := w.Do("POST", "/system/services", definition("ghcr.io/grycap/imagemagick:1")); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	s.shows("grayify")
	s.Click("grayify")
	s.Until("document.querySelector('.summary .state.ok')")
	s.Until("document.querySelector('.graph canvas')")
	s.accessible("federation")
	s.narrow("federation")

	// A cluster goes, and comes back.
	w.Cluster("oscar-cluster-c").Stop()
	s.Until("document.querySelector('.summary .state.warn') && [...document.querySelectorAll('td')].some((e) => e.textContent === 'unreachable')")
	s.goTo("/", "Overview")
	s.shows("see that the syncer of oscar-cluster-c runs")
	s.shows("the syncer of the cluster is not connected any more")
	s.accessible("overview with trouble")
	w.Cluster("oscar-cluster-c").Start()
	s.shows("Nothing is wrong")
	s.Until("document.querySelector('.rows .row-text').textContent === 'the syncer of the cluster is connected'")

	// A change, and back to what was before.
	if status, _, body := w.Do("PUT", "/system/services", definition("ghcr.io/grycap/imagemagick:2")); status >= 300 {
		t.Fatalf("%d %s", status, body)
	}
	s.goTo("/federations", "Federations")
	s.Click("grayify")
	s.Click("Definition and history")
	s.Until("document.querySelector('.diff .new')?.textContent.includes('imagemagick:2')")
	s.Until("document.querySelector('pre.source')?.textContent.includes('onerror=')")
	s.accessible("history")
	s.narrow("history")
	s.Click("Roll back …")
	s.Until("document.querySelector('dialog[open] .diff .new')?.textContent.includes('imagemagick:1')")
	s.accessible("rollback")
	s.Click("Roll back")
	s.shows("Generation 3, present")

	// The control plane is lost; what happened meanwhile is told when it is back.
	lost.begin()
	s.shows("The connection was lost")
	if status, _, body := w.Do("PUT", "/system/replicas/grayify/paused", `{"paused":true}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	lost.end()
	s.Until("document.querySelector('.connected.live') && document.querySelector('.summary .tag')?.textContent === 'Paused'")
	s.Click("Resume")
	s.Until("!document.querySelector('.summary .tag')")

	var images int
	s.Eval("document.querySelectorAll('main img').length + (document.title === 'hacked' ? 1 : 0)", &images)
	if images != 0 {
		t.Error("what a definition says became markup")
	}
}

// handedOver makes the page read that seven jobs were handed over, whatever the cluster chose.
const handedOver = `{ const real = window.fetch; window.fetch = async (path, call) => {
	const answer = await real(path, call);
	if (!String(path).startsWith('/system/stats?federation=')) return answer;
	const stats = await answer.json();
	stats.edges = [{from: 'oscar-cluster-a/grayify', to: 'oscar-cluster-b/grayify', jobs: 7}];
	return new Response(JSON.stringify(stats), {status: 200, headers: {'Content-Type': 'application/json'}});
}; 0 }`

// TestThePageExplainsJobs: where each went and why, and deleting says what stays.
func TestThePageExplainsJobs(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}, Sim: world.QuickJobs})
	if status, _, body := w.Do("POST", "/system/services", definition("ghcr.io/grycap/imagemagick:1")); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	id := w.Submit("grayify", `{"event":1}`)
	s := open(t, w)
	s.admin()
	s.goTo("/jobs", "Jobs")
	s.Until("[...document.querySelectorAll('tbody .state')].some((e) => e.textContent === 'succeeded')")
	s.Until("document.querySelectorAll('.plot path').length >= 4 && document.querySelectorAll('.plot table tbody tr').length >= 3")
	s.accessible("jobs")
	s.narrow("jobs")
	s.Fill("[type=datetime-local]", "2999-12-31T23:59")
	s.shows("No job matches.")
	s.Fill("[type=datetime-local]", "2001-01-01T00:00")
	s.Until("document.querySelectorAll('tbody .state').length === 1")
	s.goTo("/jobs/"+id, "Job of grayify")
	s.Until("document.querySelector('.verdicts .chosen') && document.querySelector('.timeline')?.textContent.includes('Succeeded')")
	s.accessible("job")
	s.narrow("job")

	// How many jobs went where is told beside the graph, too.
	s.Eval(handedOver, nil)
	s.goTo("/federations", "Federations")
	s.Click("grayify")
	s.Until("[...document.querySelectorAll('td[data-label=\"Jobs taken\"]')].map((e) => e.firstChild.textContent).sort().join() === '0,0,7'")

	s.goTo("/clusters", "Clusters")
	s.Until("document.querySelectorAll('li.cluster').length === 3 && document.querySelector('.capacity')")
	s.accessible("clusters")
	s.narrow("clusters")
	s.Click("Join a cluster")
	s.shows("Copy the command")
	s.accessible("join")
	s.Click("Close")
	s.goTo("/clusters/oscar-cluster-b", "oscar-cluster-b")
	s.accessible("cluster")
	s.Click("Cordon")
	s.shows("Nothing new is placed here")
	s.goTo("/audit", "Audit")
	s.Until("document.querySelectorAll('tbody tr').length > 1")
	s.accessible("audit")
	s.narrow("audit")
	s.goTo("/account", "Who am I")
	s.shows("cluster_admin")
	s.accessible("account")
	s.narrow("account")

	s.goTo("/federations", "Federations")
	s.Click("grayify")
	s.Click("Delete …")
	s.shows("all buckets and their objects")
	s.accessible("delete")
	s.Fill("dialog[open] input:not([type=checkbox])", "grayify")
	s.Click("Delete the federation")
	s.shows("There is no federation that you may see.")
	s.Click("Log out")
	s.shows("Log in to oscarfed")
}
