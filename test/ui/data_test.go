package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/test/world"
)

// storage is the MinIO of one cluster, at an origin of its own.
func storage(t *testing.T, of *atomic.Pointer[oscarsim.Sim], lets *atomic.Bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/minio/health/live" {
			return
		}
		if !lets.Load() {
			w.WriteHeader(http.StatusForbidden) // with no word of CORS
			return
		}
		of.Load().Objects().ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestDataGoesToTheMinIOAndBack uploads a file from the page's frame, and downloads it.
func TestDataGoesToTheMinIOAndBack(t *testing.T) {
	var sim atomic.Pointer[oscarsim.Sim]
	var lets atomic.Bool
	lets.Store(true)
	minio := storage(t, &sim, &lets)
	const id = "oscar-cluster-b"
	w := world.New(t, world.Options{
		Names:  []string{"grayify"},
		Stream: func(cfg *relay.Config) { cfg.Limits.Admin = true },
		Sim: func(cfg *oscarsim.Config) {
			world.QuickJobs(cfg)
			if cfg.ClusterID == id {
				cfg.MinIO = minio
			}
		},
	})
	w.AwaitStreams(w.CP)
	cluster := w.Cluster(id)
	sim.Store(cluster.Sim)
	hostile := `a/<img src=x onerror="document.title='hacked'">`
	cluster.Sim.PutBucket("pictures", "in/", hostile)
	s := open(t, w)
	s.admin()
	definition := `{"name":"grayify","cluster_id":"oscar-cluster-b","image":"i","script":"true","memory":"256Mi","cpu":"0.1",
		"input":[{"storage_provider":"minio.default","path":"gray/in"}],"output":[{"storage_provider":"minio.default","path":"gray/out"}]}`
	if status, _, body := w.Do("POST", "/system/services", definition); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	s.goTo("/federations", "Federations")
	s.Click("grayify")
	s.shows("read it; a new file starts one")
	s.accessible("where inputs are")
	s.look("storage")

	s.goTo("/data", "Data")
	s.shows("pictures")
	s.accessible("data")
	s.narrow("data")
	s.look("data")
	s.Click("pictures")
	s.shows("onerror=")
	s.accessible("bucket")
	s.narrow("bucket")
	s.look("bucket")

	// A file of this machine, as the browser's own dialog gives it.
	s.Fill("input[list=folders]", "in")
	file := filepath.Join(t.TempDir(), "leaf.txt")
	if err := os.WriteFile(file, []byte("a leaf"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Choose("input[type=file]", file)
	s.shows("Sent, 6 B")
	s.shows("in/leaf.txt")
	s.Until("!document.querySelector('iframe')")
	s.accessible("uploaded")
	s.look("uploaded")
	var address string
	s.Eval(`(() => { window.open = () => null; return new Promise((done) => {
		HTMLAnchorElement.prototype.click = function () { done(this.href + ' ' + this.rel); };
		[...document.querySelectorAll('button')].find((e) => e.getAttribute('aria-label') === 'Download in/leaf.txt').click();
	}) })()`, &address)
	var link, rel string
	if _, err := fmt.Sscan(address, &link, &rel); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body := make([]byte, 64)
	n, _ := answer.Body.Read(body)
	if string(body[:n]) != "a leaf" || rel != "noopener" {
		t.Errorf("%s gave %d %q", address, answer.StatusCode, body[:n])
	}

	// A MinIO that lets no page in: it is said why.
	lets.Store(false)
	s.Choose("input[type=file]", file)
	s.shows("its CORS has to allow every origin")
	s.accessible("an upload that fails")
	// What runs in the frame has nothing of the page.
	var reached string
	s.Eval(`new Promise((done) => {
		const f = document.createElement('iframe');
		f.src = '/ui/upload.html';
		f.addEventListener('load', () => { let got; try { got = f.contentDocument ? 'its frame' : ''; } catch { got = ''; } f.remove(); done(got); });
		document.body.append(f);
	})`, &reached)
	if reached != "" {
		t.Errorf("the page and the frame are one origin: %s", reached)
	}
	var images int
	s.Eval("document.querySelectorAll('main img').length + (document.title === 'hacked' ? 1 : 0)", &images)
	if images != 0 {
		t.Error("the name of an object became markup")
	}
}

// TestDataThatTheAdministratorMayNotSee says what to do.
func TestDataThatTheAdministratorMayNotSee(t *testing.T) {
	w := world.New(t, world.Options{Names: []string{"grayify"}})
	w.AwaitStreams(w.CP)
	s := open(t, w)
	s.admin()
	s.goTo("/data", "Data")
	s.Until("document.querySelector('.note.bad')")
	s.accessible("no data")
	s.look("data-none")
}

// atBucket opens a bucket of a cluster whose MinIO takes what put does.
func atBucket(t *testing.T, put http.HandlerFunc, middleware func(http.Handler) http.Handler) *site {
	t.Helper()
	var sim atomic.Pointer[oscarsim.Sim]
	minio := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/minio/health/live" {
			return
		}
		if r.Method == http.MethodPut {
			put(w, r)
		}
		sim.Load().Objects().ServeHTTP(w, r)
	}))
	t.Cleanup(minio.Close)
	const id = "oscar-cluster-b"
	w := world.New(t, world.Options{
		Stream: func(cfg *relay.Config) { cfg.Limits.Admin = true },
		Sim: func(cfg *oscarsim.Config) {
			world.QuickJobs(cfg)
			if cfg.ClusterID == id {
				cfg.MinIO = minio.URL
			}
		},
		Middleware: middleware,
	})
	w.AwaitStreams(w.CP)
	sim.Store(w.Cluster(id).Sim)
	w.Cluster(id).Sim.PutBucket("pictures", "in/", "in/first.txt")
	s := open(t, w)
	s.admin()
	// The list is renewed at every moment, not each half minute.
	s.Eval("{ const real = window.setTimeout; window.setTimeout = (f, ms) => real(f, ms === 30_000 ? 50 : ms); } 0", nil)
	s.goTo("/data/"+id+"/pictures", "pictures")
	s.shows("in/first.txt")
	return s
}

// chooses gives the page a file to upload.
func (s *site) chooses() {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "leaf.txt")
	if err := os.WriteFile(file, []byte("a leaf"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.Choose("input[type=file]", file)
}

// TestAFailedRefreshLeavesTheUpload: the list cannot be read while a file is sent. What is known of
// it stays, and the file arrives.
func TestAFailedRefreshLeavesTheUpload(t *testing.T) {
	begun, goesOn := make(chan struct{}, 1), make(chan struct{})
	var fails atomic.Bool
	s := atBucket(t, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-goesOn
	}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fails.Load() && r.URL.Path == "/system/buckets/pictures" {
				http.Error(w, "no list now", http.StatusBadGateway)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	s.chooses()
	<-begun
	fails.Store(true)
	s.shows("no list now")
	close(goesOn)
	s.shows("Sent, 6 B")
	s.shows("in/first.txt")
	s.accessible("a list that is not renewed")
	fails.Store(false)
	s.shows("in/leaf.txt")
	s.Until("!document.querySelector('.note.bad')")
}

// TestStopStopsAnUploadThatHasNotBegun: while its link is asked for, and while its file is read.
// Nothing reaches the MinIO.
func TestStopStopsAnUploadThatHasNotBegun(t *testing.T) {
	var puts atomic.Int32
	asked, answers := make(chan struct{}, 1), make(chan struct{})
	s := atBucket(t, func(http.ResponseWriter, *http.Request) { puts.Add(1) }, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/system/buckets/pictures/presign" {
				asked <- struct{}{}
				<-answers
			}
			next.ServeHTTP(w, r)
		})
	})
	const ended = "(document.querySelector('.sendings')?.innerText.match(/was stopped|Sent,/) && !document.querySelector('input[type=file]').disabled)"
	s.chooses()
	<-asked
	s.Click("Stop")
	close(answers)
	s.Until(ended)

	s.Eval(`{ const read = File.prototype.arrayBuffer; File.prototype.arrayBuffer = function () {
		return new Promise((done) => { window.reads = () => done(read.call(this)); });
	} } 0`, nil)
	s.chooses()
	s.Eval("new Promise((done) => { const ask = () => window.reads ? done(0) : setTimeout(ask); ask(); })", nil)
	s.Click("Stop")
	s.Eval("window.reads(); 0", nil)
	s.Until(ended)
	if n := puts.Load(); n != 0 {
		t.Errorf("%d stopped uploads reached the MinIO", n)
	}
}
