package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// One stream of each syncer to each instance, through one address that leads to all.
func TestEveryInstanceGetsAStreamOfEveryCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := world.New(t, world.Options{Wire: wire.New(1)})
		w.AwaitStreams(w.CP)
		other := w.StartControlPlane("control-plane-1")
		w.Serve(other)
		w.AwaitStreams(other)
		w.Restart()
		w.AwaitStreams(w.CP)
		w.AwaitStreams(other)
	})
}

const relayed = `{"name":"grayifyr0","cluster_id":"oscar-cluster-a","image":"i","script":"s","federation":{"topology":"star","members":[` +
	`{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1","priority":1},` +
	`{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayifyr2","priority":2}]}}`

// functions are what the clusters' functions do and have done.
type functions struct {
	mu     sync.Mutex
	called []string
	ended  chan string
}

func (f *functions) of(cluster string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.called = append(f.called, cluster)
		f.mu.Unlock()
		switch r.Header.Get("Ce-Type") {
		case "hang":
			// A server of HTTP/1 does not look whether its client is there before that.
			_, _ = io.Copy(io.Discard, r.Body)
			_ = http.NewResponseController(w).Flush() // the head of the answer is out
			<-r.Context().Done()
			f.ended <- "hang"
		case "endless":
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					f.ended <- "endless"
					return
				}
			}
		case "header":
			fmt.Fprintf(w, "%v %v", r.Header.Get("Cookie"), strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "))
		case "teapot":
			w.WriteHeader(http.StatusTeapot - 14) // 404, of the function itself
		default:
			oscarsim.Echo(w, r)
		}
	})
}

func (f *functions) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.called
	f.called = nil
	return taken
}

// What a job has written is shown to the owner of its service and to its sender, not to the other users of the service.
func TestAUserReadsTheLogOfAnothersJob(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) { o.Clusters, o.Names = []string{a}, []string{"svc"} })
		const bob, carol = "bob", "carol"
		w.AddUser(bob)
		w.AddUser(carol)
		w.AwaitStreams(w.CP)
		if err := createAs(w, w.Token(alice, nil), `{"name":"svc","cluster_id":"oscar-cluster-a","visibility":"public","image":"i","script":"s"}`, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		origin, _ := w.Cluster(a).Sim.Service("svc")
		// send gives the name at OSCAR of a job that runs.
		send := func(who *client.Client) string {
			t.Helper()
			sent, err := who.SubmitJob(t.Context(), "svc", []byte("event"), client.JobOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var name string
			w.Eventually("it is submitted", func() bool {
				job, err := w.Client.Job(t.Context(), sent.ID)
				if err != nil || job.State != "submitted" {
					return false
				}
				name = job.Place.JobName
				return true
			})
			if err := w.Cluster(a).Sim.SetJobStatus("svc", name, oscarsim.JobRunning); err != nil {
				t.Fatal(err)
			}
			return name
		}
		ownOfOSCAR := world.Must(w.Cluster(a).Sim.AddJob("svc", oscarsim.JobRunning))(t)
		for _, tt := range []struct {
			what, job string
			readers   []string
		}{
			{"carol's job", send(w.WithToken(w.Token(carol, nil))), []string{alice, carol}},
			{"a job by the service's token, as an upload sends it", send(w.WithToken(origin.Token)), []string{alice}},
			{"a job that did not come in here", ownOfOSCAR, []string{alice}},
		} {
			for _, who := range []string{alice, bob, carol} {
				want := http.StatusNotFound
				if slices.Contains(tt.readers, who) {
					want = http.StatusOK
				}
				token := "Bearer " + w.Token(who, nil)
				if status, _, body := w.Raw(http.MethodGet, "/system/logs/svc/"+tt.job, "", token); status != want {
					t.Errorf("the log of %s is answered %s with %d %s", tt.what, who, status, body)
				}
			}
			if status, _, _ := w.Do(http.MethodGet, "/system/logs/svc/"+tt.job, ""); status != http.StatusOK {
				t.Errorf("the log of %s is answered the administrator with %d", tt.what, status)
			}
		}
	})
}

// Clusters are reached by nothing but their syncers' streams: no token may be sent to the
// addresses that they are registered with.
func TestInvocationsAndLogsGoThroughTheStreams(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		fn := &functions{ended: make(chan string, 8)}
		w := world.New(t, world.Options{Wire: wire.New(1), Sim: func(c *oscarsim.Config) { c.Function = fn.of(c.ClusterID) }})
		for _, id := range []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"} {
			if _, err := w.Client.UpdateCluster(t.Context(), v1.ClusterSpec{ClusterID: id, Endpoint: "http://" + id + ".example.org"}); err != nil {
				t.Fatal(err)
			}
		}
		if status, _, body := w.Do("POST", "/system/services", relayed); status != 201 {
			t.Fatalf("create: %d %s", status, body)
		}
		w.AwaitStreams(w.CP)
		origin, _ := w.Cluster("oscar-cluster-a").Sim.Service("grayifyr0")

		step(t, "an invocation goes to the best member, whoever asks", func(t *testing.T) {
			for _, who := range []string{"Bearer " + origin.Token, ""} {
				status, header, body := w.Do("POST", "/run/grayifyr0", "hello", "Content-Type", "text/x")
				if who != "" {
					status, header, body = w.Raw("POST", "/run/grayifyr0", "hello", who, "Content-Type", "text/x")
				}
				if status != 200 || body != "hello" || header.Get("Oscarfed-Cluster") != "oscar-cluster-a" || header.Get("Content-Type") != "text/x" {
					t.Errorf("%d %v %s", status, header, body)
				}
			}
			for _, who := range []string{"Bearer " + strings.Repeat("0", 64), "Bearer x", ""} {
				if status, _, _ := w.Raw("POST", "/run/grayifyr0", "hello", who); status != 401 {
					t.Errorf("%q is answered %d", who, status)
				}
			}
			if got := fn.take(); !slices.Equal(got, []string{"oscar-cluster-a", "oscar-cluster-a", "oscar-cluster-a"}) {
				t.Errorf("called were %v", got)
			}
		})

		step(t, "nobody's credentials go with it, and what the function answers comes back", func(t *testing.T) {
			if _, _, body := w.Do("POST", "/run/grayifyr0", "x", "Ce-Type", "header", "Cookie", "secret"); body != " true" {
				t.Errorf("the function has seen %q", body)
			}
			if status, header, _ := w.Do("POST", "/run/grayifyr0", "x", "Ce-Type", "teapot"); status != 404 || header.Get("Oscarfed-Cluster") == "" {
				t.Errorf("a function's own 404 is answered %d %v", status, header)
			}
			fn.take()
		})

		// request sends one that is read as it comes.
		request := func(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, method, w.API+path, body)
			if err != nil {
				return nil, err
			}
			req.SetBasicAuth(world.User, world.Password)
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			return w.HTTP().Do(req)
		}

		step(t, "both ways are streams", func(t *testing.T) {
			pipe, in := io.Pipe()
			first := make(chan error, 1)
			go func() { _, err := io.WriteString(in, "ping"); first <- err }()
			resp, err := request(t.Context(), "POST", "/run/grayifyr0", pipe)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for _, word := range []string{"ping", "pong"} {
				if word == "pong" {
					go func() { _, err := io.WriteString(in, word); first <- err }()
				}
				got := make([]byte, len(word))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != word || <-first != nil {
					t.Fatalf("read %q, %v", got, err)
				}
			}
			_ = in.Close()
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
				t.Errorf("the end: %q, %v", rest, err)
			}
		})

		step(t, "a large body passes both ways", func(t *testing.T) {
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB: more than all buffers on the way
			resp, err := request(t.Context(), "POST", "/run/grayifyr0", bytes.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})

		step(t, "who goes away ends the function", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := request(ctx, "POST", "/run/grayifyr0", strings.NewReader("x"), "Ce-Type", "hang")
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if got := <-fn.ended; got != "hang" {
				t.Error(got)
			}
			_ = resp.Body.Close()
		})

		step(t, "who does not read holds nobody else up", func(t *testing.T) {
			var unread []io.Closer
			for range 12 {
				resp, err := request(t.Context(), "POST", "/run/grayifyr0", strings.NewReader("x"), "Ce-Type", "endless")
				if err != nil {
					t.Fatal(err)
				}
				unread = append(unread, resp.Body)
			}
			sent := bytes.Repeat([]byte("x"), 4<<20)
			if status, _, body := w.Do("POST", "/run/grayifyr0", string(sent)); status != 200 || len(body) != len(sent) {
				t.Errorf("beside readers that stand still: %d, %d bytes", status, len(body))
			}
			for _, body := range unread {
				_ = body.Close()
				if got := <-fn.ended; got != "endless" {
					t.Error(got)
				}
			}
			fn.take()
		})

		step(t, "logs of all members are one list", func(t *testing.T) {
			want := map[string]string{}
			for i, at := range []string{"oscar-cluster-a/grayifyr0", "oscar-cluster-b/grayifyr1", "oscar-cluster-c/grayifyr2"} {
				cluster, service, _ := strings.Cut(at, "/")
				for range 75 * i { // more than a page of OSCAR's on b, two on c
					name, err := w.Cluster(cluster).Sim.AddJob(service, oscarsim.JobSucceeded)
					if err != nil {
						t.Fatal(err)
					}
					want[name] = oscarsim.JobSucceeded
				}
			}
			running, err := w.Cluster("oscar-cluster-b").Sim.AddJob("grayifyr1", oscarsim.JobRunning)
			if err != nil {
				t.Fatal(err)
			}
			want[running] = oscarsim.JobRunning
			got, pages, left := map[string]string{}, 0, int64(0)
			for page := ""; ; pages++ {
				var list v1.JobsOfService
				status, _, body := w.Do("GET", "/system/logs/grayifyr0?page="+page, "")
				if status != 200 || json.Unmarshal([]byte(body), &list) != nil {
					t.Fatalf("%d %s", status, body)
				}
				if pages == 0 && list.RemainingJobs != nil {
					left = *list.RemainingJobs
				}
				for name, job := range list.Jobs {
					got[name] = job.Status
				}
				if page = list.NextPage; page == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || pages != 2 || left != 6+80 {
				t.Errorf("%d pages, %d remained after the first: %s", pages+1, left, diff)
			}

			if status, header, _ := w.Do("GET", "/system/logs/grayifyr0/"+running+"?timestamps=true", ""); status != 200 || header.Get("Oscarfed-Cluster") != "oscar-cluster-b" {
				t.Errorf("its log: %d %v", status, header)
			}
			for _, unknown := range []string{"grayifyr0-0", "..", "a,b", "UPPER"} {
				if status, _, body := w.Do("GET", "/system/logs/grayifyr0/"+unknown, ""); status != 404 || unknown != ".." && body != "" {
					t.Errorf("%q: %d %s", unknown, status, body)
				}
			}
			if status, _, _ := w.Do("GET", "/system/logs/canary", ""); status != 404 {
				t.Errorf("a service of somebody else: %d", status)
			}
			if status, _, _ := w.Do("DELETE", "/system/logs/grayifyr0/"+running, ""); status != 204 {
				t.Errorf("delete one: %d", status)
			}
			if status, _, _ := w.Do("DELETE", "/system/logs/grayifyr0/"+running, ""); status != 404 {
				t.Errorf("delete it again: %d", status)
			}
			if status, header, _ := w.Do("DELETE", "/system/logs/grayifyr0?all=true", ""); status != 204 || header.Get("Oscarfed-Missing") != "" {
				t.Errorf("delete all: %d %v", status, header)
			}
			for _, c := range []string{"oscar-cluster-b", "oscar-cluster-c"} {
				for _, service := range []string{"grayifyr1", "grayifyr2"} {
					if jobs := w.Cluster(c).Sim.Jobs(service); len(jobs) > 0 {
						t.Errorf("%s has %d jobs of %s", c, len(jobs), service)
					}
				}
			}
		})

		step(t, "a job of ours is found by its name at OSCAR", func(t *testing.T) {
			sent, err := w.Client.SubmitJob(t.Context(), "grayifyr0", []byte("event"), client.JobOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var place *v1.JobPlace
			w.Eventually("it is submitted", func() bool {
				job, err := w.Client.Job(t.Context(), sent.ID)
				if err != nil || job.State != "submitted" {
					return false
				}
				place = job.Place
				return true
			})
			if _, err := w.Client.JobLog(t.Context(), place.ServiceName, place.JobName, client.LogOptions{ClusterID: place.ClusterID}); err == nil {
				t.Error("it has a log before its pod has started")
			}
			if err := w.Cluster(place.ClusterID).Sim.SetJobStatus(place.ServiceName, place.JobName, oscarsim.JobRunning); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Client.JobLog(t.Context(), place.ServiceName, place.JobName, client.LogOptions{ClusterID: place.ClusterID, Timestamps: true}); err != nil {
				t.Error(err)
			}
			// By the service that the job was submitted to, not the one that ran it.
			for service, cluster := range map[string]string{"grayifyr0": "oscar-cluster-a", "grayifyr1": "oscar-cluster-b", "grayifyr2": "oscar-cluster-c"} {
				if _, err := w.Client.JobLog(t.Context(), service, place.JobName, client.LogOptions{ClusterID: cluster}); err != nil {
					t.Errorf("by the name of %s: %v", service, err)
				}
			}
			if err := w.Cluster(place.ClusterID).Sim.SetJobStatus(place.ServiceName, place.JobName, oscarsim.JobSucceeded); err != nil {
				t.Fatal(err)
			}
			w.Eventually("it has ended", func() bool {
				job, err := w.Client.Job(t.Context(), sent.ID)
				return err == nil && v1.JobEnded(job.State)
			})
			if status, _, _ := w.Do("DELETE", "/system/logs/grayifyr0?all=true", ""); status != 204 {
				t.Error(status)
			}
		})

		step(t, "a member that is away has no part, and is named", func(t *testing.T) {
			name, err := w.Cluster("oscar-cluster-b").Sim.AddJob("grayifyr1", oscarsim.JobRunning)
			if err != nil {
				t.Fatal(err)
			}
			w.Cluster("oscar-cluster-a").Stop()
			w.Eventually("the stream is gone", func() bool {
				c, err := w.Client.Cluster(t.Context(), "oscar-cluster-a")
				return err == nil && !c.Stream && !c.Alive
			})
			status, header, body := w.Do("GET", "/system/logs/grayifyr0", "")
			var list v1.JobsOfService
			if status != 200 || json.Unmarshal([]byte(body), &list) != nil || !slices.Equal(slices.Collect(maps.Keys(list.Jobs)), []string{name}) {
				t.Errorf("%d %s", status, body)
			}
			if got := header.Get("Oscarfed-Missing"); !strings.HasPrefix(got, "oscar-cluster-a: ") {
				t.Errorf("missing is %q", got)
			}
			if status, header, _ := w.Do("POST", "/run/grayifyr0", "x"); status != 200 || header.Get("Oscarfed-Cluster") != "oscar-cluster-b" {
				t.Errorf("the next member: %d %v", status, header)
			}
			if got := fn.take(); !slices.Equal(got, []string{"oscar-cluster-b"}) {
				t.Errorf("called were %v", got)
			}
			w.Cluster("oscar-cluster-a").Start()
			w.AwaitStreams(w.CP)
		})

		step(t, "when no member is reached there is no list, and not an empty one", func(t *testing.T) {
			for _, id := range []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"} {
				w.Cluster(id).Stop()
			}
			w.Eventually("the streams are gone", func() bool {
				list, err := w.Client.Clusters(t.Context())
				return err == nil && !slices.ContainsFunc(list, func(c v1.Cluster) bool { return c.Stream || c.Alive })
			})
			status, header, body := w.Do("GET", "/system/logs/grayifyr0", "")
			if status != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, "oscar-cluster-c: ") || !strings.Contains(body, "start its syncer") {
				t.Errorf("%d %s", status, body)
			}
			for _, id := range []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"} {
				w.Cluster(id).Start()
			}
			w.AwaitStreams(w.CP)
		})

		step(t, "after a restart of the control plane", func(t *testing.T) {
			w.Restart()
			w.AwaitStreams(w.CP)
			if status, _, body := w.Do("POST", "/run/grayifyr0", "hello"); status != 200 || body != "hello" {
				t.Errorf("%d %s", status, body)
			}
		})
	})
}
