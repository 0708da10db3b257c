package oscarsim_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

func TestPutServiceIsSomebodyElses(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{Latency: oscarsim.RealLatency})
	def := `{"name":"canary","image":"i","script":"s","owner":"alice","environment":{"secrets":{"k":"v"}},"input":[{"storage_provider":"minio","path":"canary/in"}]}`
	if err := sim.PutService(def); err != nil {
		t.Fatal(err)
	}
	v, ok := sim.Service("canary")
	if !ok || v.Owner != "alice" || v.Secrets["k"] != "v" || !v.Readable || !v.Registered || strings.Join(v.Inputs, "") != "canary/in" {
		t.Fatalf("service %+v", v)
	}
	want(t, ask(t, url, "GET", "/system/services/canary", ""), 200, string(v.JSON))
	b, _ := sim.Bucket("canary")
	if b.Owner != "alice" || b.Tags["from_service"] != "canary" || !slices.Equal(b.Notifies, []string{"canary"}) {
		t.Fatalf("bucket %+v", b)
	}
	if err := sim.PutService(bare("other")); err != nil {
		t.Fatal(err)
	}
	if v, _ := sim.Service("other"); v.Owner != "cluster_admin" {
		t.Fatalf("owner %q without one in the definition", v.Owner)
	}
	for _, bad := range []string{"", def, strings.Replace(def, `"canary","image"`, `"third","image"`, 1), `{"name":"Bad_Name","image":"i","script":"s"}`} {
		if sim.PutService(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if names := sim.Services(); !slices.Equal(names, []string{"canary", "other"}) {
		t.Fatalf("services %v", names)
	}
	if len(sim.Calls()) != 1 { // the GET
		t.Fatalf("calls %v", sim.Calls())
	}
}

func TestHalfCreated(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	sim.HalfCreate("half")
	if got := ask(t, url, "GET", "/system/services", ""); !strings.Contains(got.body, `"name":"half"`) {
		t.Fatalf("it is not listed: %+v", got)
	}
	want(t, ask(t, url, "GET", "/system/services/half", ""), 404, "")
	want(t, ask(t, url, "GET", "/system/logs/half", ""), 404, "")
	want(t, ask(t, url, "GET", "/system/services/half/deployment", ""), 403, "You do not have permission to access this service")
	want(t, ask(t, url, "PUT", "/system/services", bare("half")), 404, "")
	want(t, ask(t, url, "DELETE", "/system/services/half", ""), 404, "")
	want(t, ask(t, url, "POST", "/system/services", bare("half")), 400, "A service with the provided name already exists")
	v, _ := sim.Service("half")
	if v.Readable {
		t.Fatal("it is readable")
	}
	req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/job/half", strings.NewReader("e"))
	req.Header.Set("Authorization", "Bearer "+v.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 201 {
		t.Fatalf("POST /job answered %d", resp.StatusCode)
	}
	if err := sim.PutPodTemplate("half"); err != nil {
		t.Fatal(err)
	}
	want(t, ask(t, url, "DELETE", "/system/services/half", ""), 204, "")
	if st := sim.State(); len(st.Services)+len(st.Jobs) != 0 {
		t.Fatalf("state %+v", st)
	}

	// An existing service can be broken the same way, with all that it has.
	if err := sim.PutService(plain("whole")); err != nil {
		t.Fatal(err)
	}
	sim.HalfCreate("whole")
	want(t, ask(t, url, "GET", "/system/services/whole", ""), 404, "")
	if _, ok := sim.Bucket("whole"); !ok {
		t.Fatal("its bucket went")
	}
}

func TestLeftoverSecretBlocksTheName(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	sim.LeftoverSecret("one")
	def := strings.Replace(bare("one"), `"image"`, `"environment":{"secrets":{"k":"v"}},"image"`, 1)
	want(t, ask(t, url, "POST", "/system/services", def), 409, "A secret with the given name already exists")
	want(t, ask(t, url, "GET", "/system/services", ""), 200, "[]")
	want(t, ask(t, url, "POST", "/system/services", bare("one")), 201, "")
	want(t, ask(t, url, "DELETE", "/system/services/one", ""), 204, "")
	if _, ok := sim.Secret("one"); ok {
		t.Fatal("the Secret stayed")
	}
}

func TestSecretIsReplacedByPut(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	with := func(secrets string) string {
		return strings.Replace(bare("one"), `"image"`, `"environment":{"secrets":`+secrets+`},"image"`, 1)
	}
	want(t, ask(t, url, "POST", "/system/services", with(`{"k":"v","l":"w"}`)), 201, "")
	want(t, ask(t, url, "PUT", "/system/services", bare("one")), 204, "")
	if got, _ := sim.Secret("one"); got["k"] != "v" || got["l"] != "w" {
		t.Fatalf("a PUT without secrets made %v", got)
	}
	want(t, ask(t, url, "PUT", "/system/services", with(`{"k":""}`)), 204, "")
	if got, _ := sim.Secret("one"); len(got) != 1 || got["k"] != "" {
		t.Fatalf("a PUT of blank values made %v", got)
	}
}

func TestNotificationOutlivesADetachedService(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	detached := strings.NewReplacer(`"input":[{"storage_provider":"minio.default","path":"one/in"}]`, `"input":[]`,
		`"output":[{"storage_provider":"minio.default","path":"one/out"}]`, `"output":[]`).Replace(plain("one"))
	if err := sim.PutService(plain("one")); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, url, "PUT", "/system/services", detached); got.status != 500 {
		t.Fatalf("detach answered %d", got.status)
	}
	upload := func(object string, jobs int) {
		t.Helper()
		if err := sim.Upload("one", object); err != nil {
			t.Fatal(err)
		}
		if got := sim.Jobs("one"); len(got) != jobs {
			t.Fatalf("%d jobs after the upload of %s, want %d", len(got), object, jobs)
		}
	}
	upload("in/1", 1) // detached, and still triggered
	upload("out/1", 1)
	want(t, ask(t, url, "DELETE", "/system/services/one", ""), 204, "")
	upload("in/2", 0)
	if b, _ := sim.Bucket("one"); !slices.Equal(b.Dangling, []string{"one"}) || len(b.Notifies) != 0 || !slices.Contains(b.Objects, "in/2") {
		t.Fatalf("bucket %+v", b)
	}
	want(t, ask(t, url, "POST", "/system/services", detached), 201, "")
	upload("in/3", 1) // live again
}

func TestMountedBucketSurvivesWithoutItsNotification(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	if err := sim.PutService(plain("one")); err != nil {
		t.Fatal(err)
	}
	mounted := strings.Replace(plain("one"), `"owner"`, `"mount":{"storage_provider":"minio.default","path":"one"},"owner"`, 1)
	want(t, ask(t, url, "PUT", "/system/services", mounted), 204, "")
	want(t, ask(t, url, "DELETE", "/system/services/one", ""), 204, "")
	if b, ok := sim.Bucket("one"); !ok || len(b.Notifies)+len(b.Dangling) != 0 || b.Tags["service"] != "false" || b.Owner != "cluster_admin" {
		t.Fatalf("bucket %t %+v", ok, b)
	}
}

func TestUploadNeedsALiveWebhook(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	if err := sim.Upload("none", "in/1"); err == nil {
		t.Error("an upload to no bucket was accepted")
	}
	sim.PutBucket("foreign", "in/1")
	if err := sim.Upload("foreign", "in/2"); err != nil {
		t.Fatal(err)
	}
	// A token that is not 64 long is no token: OSCAR answers MinIO 401.
	def := strings.Replace(plain("one"), `"owner"`, `"annotations":{"oscar.grycap/federation-worker":"true"},"owner"`, 1)
	want(t, ask(t, url, "POST", "/system/services", def), 201, "")
	if err := sim.Upload("one", "in/1"); err != nil {
		t.Fatal(err)
	}
	if jobs := sim.State().Jobs; len(jobs) != 0 {
		t.Fatalf("jobs %v", jobs)
	}
}

func TestJobs(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	if _, err := sim.AddJob("one", oscarsim.JobPending); err == nil {
		t.Error("a job of no service was accepted")
	}
	if err := sim.PutService(bare("one")); err != nil {
		t.Fatal(err)
	}
	name, err := sim.AddJob("one", oscarsim.JobPending)
	if err != nil {
		t.Fatal(err)
	}
	want(t, ask(t, url, "GET", "/system/logs/one", ""), 200, `{"jobs":{"`+name+`":{"status":"Pending"}}}`)
	want(t, ask(t, url, "GET", "/system/logs/one/"+name, ""), 404, "")
	want(t, ask(t, url, "PUT", "/_sim/jobs/one/"+name, `{"status":"Succeeded"}`), 204, "")
	var logs struct {
		Jobs map[string]map[string]string `json:"jobs"`
	}
	got := ask(t, url, "GET", "/system/logs/one", "")
	if err := json.Unmarshal([]byte(got.body), &logs); err != nil || logs.Jobs[name]["status"] != "Succeeded" || logs.Jobs[name]["creation_time"] == "" || logs.Jobs[name]["finish_time"] == "" {
		t.Fatalf("logs %s: %v", got.body, err)
	}
	want(t, ask(t, url, "GET", "/system/logs/one/"+name, ""), 200, "")
	if sim.SetJobStatus("one", name, "Nonsense") == nil || sim.SetJobStatus("one", "none", oscarsim.JobFailed) == nil {
		t.Error("nonsense was accepted")
	}
	running, err := sim.AddJob("one", oscarsim.JobRunning)
	if err != nil {
		t.Fatal(err)
	}
	want(t, ask(t, url, "DELETE", "/system/logs/one", ""), 204, "") // the succeeded ones
	if jobs := sim.Jobs("one"); len(jobs) != 1 || jobs[0].Name != running {
		t.Fatalf("jobs %v", jobs)
	}
}

func TestJobsArePaged(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	if err := sim.PutService(bare("one")); err != nil {
		t.Fatal(err)
	}
	for range 75 {
		if _, err := sim.AddJob("one", oscarsim.JobRunning); err != nil {
			t.Fatal(err)
		}
	}
	page := func(token string) (jobs map[string]any, next string, remaining float64) {
		var v map[string]any
		got := ask(t, url, "GET", "/system/logs/one?page="+token, "")
		if err := json.Unmarshal([]byte(got.body), &v); err != nil {
			t.Fatal(err)
		}
		jobs, _ = v["jobs"].(map[string]any)
		next, _ = v["next_page"].(string)
		remaining, _ = v["remaining_jobs"].(float64)
		return jobs, next, remaining
	}
	first, next, remaining := page("")
	second, end, _ := page(next)
	if len(first) != 70 || remaining != 5 || len(second) != 5 || end != "" {
		t.Fatalf("pages of %d (%v remain) and %d, then %q", len(first), remaining, len(second), end)
	}
	for name := range second {
		if _, twice := first[name]; twice {
			t.Errorf("%s is on both pages", name)
		}
	}
}

func TestEventKeepsItsBytesUnlessTheyAreNotUTF8(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	token := strings.Repeat("ab", 32)
	def := strings.Replace(bare("one"), `"image"`, `"token":"`+token+`","annotations":{"oscar.grycap/federation-worker":"true"},"image"`, 1)
	want(t, ask(t, url, "POST", "/system/services", def), 201, "")
	for id, c := range map[string]struct{ event, stored string }{
		"plain": {"QUJD", "QUJD"}, "utf8": {"olé", "olé"}, "nul": {"a\x00b", "a\x00b"}, "bytes": {"a\xff\xfeb", "a\ufffd\ufffdb"},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/job/one", strings.NewReader(c.event))
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("X-Delegated-Job-ID", id)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		i := slices.IndexFunc(sim.Jobs("one"), func(j oscarsim.JobView) bool { return j.Name == id })
		if i < 0 || sim.Jobs("one")[i].Event != c.stored {
			t.Errorf("%s: jobs %+v", id, sim.Jobs("one"))
		}
	}
}

func TestStatusAddsTheNodesUp(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{Nodes: []oscarsim.Node{
		{Name: "a", CPU: 4000, Memory: 100, UsedCPU: 1000, UsedMemory: 10, RequestCPU: 500, RequestMemory: 20},
		{Name: "b", CPU: 2000, Memory: 50, GPU: 1, NotReady: true},
	}})
	got := ask(t, url, "GET", "/system/status", "")
	const metrics = `{"cluster":{"nodes_count":2,"metrics":{"cpu":{"total_free_cores":5000,"max_free_on_node_cores":3000,"total_schedulable_cores":5500,"total_schedulable_on_node_cores":3500},` +
		`"memory":{"total_free_bytes":140,"max_free_on_node_bytes":90,"total_schedulable_bytes":130,"max_schedulable_on_node_bytes":80},"gpu":{"total_gpu":1}},` +
		`"nodes":[{"name":"a","cpu":{"capacity_cores":4000,"usage_cores":1000,"request_cores":500},"memory":{"capacity_bytes":100,"usage_bytes":10,"request_bytes":20},"gpu":0,"is_interlink":false,"status":"Ready","conditions":[{"type":"Ready","status":true}]},` +
		`{"name":"b","cpu":{"capacity_cores":2000},"memory":{"capacity_bytes":50},"gpu":1,"is_interlink":false,"status":"NotReady","conditions":[{"type":"Ready","status":false}]}]},"oscar":`
	if !strings.HasPrefix(got.body, metrics) {
		t.Errorf("got\n%s\nwant\n%s", got.body, metrics)
	}
	sim.SetNodes(oscarsim.Node{Name: "c", CPU: 1})
	if got = ask(t, url, "GET", "/system/status", ""); !strings.HasPrefix(got.body, `{"cluster":{"nodes_count":1,`) {
		t.Errorf("got %s", got.body)
	}
	_, bare := serve(t, oscarsim.Config{NoMetrics: true})
	want(t, ask(t, bare, "GET", "/system/status", ""), 500, `{"error":"Error getting metrics info: the server could not find the requested resource (get nodes.metrics.k8s.io)"}`)
}

// What runs takes room from its node, and no Job gets a node that is the front of
// another machine, or while its event is held.
func TestStatusCountsWhatRuns(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{
		Workload: &oscarsim.Workload{Min: time.Hour, Max: time.Hour},
		Nodes:    []oscarsim.Node{{Name: "front", CPU: 9000, Memory: 9 << 30, Interlink: true}, {Name: "own", CPU: 1000, Memory: 1 << 30, RequestCPU: 100}},
	})
	want(t, ask(t, url, "POST", "/system/services", strings.Replace(bare("one"), `"image"`, `"cpu":"0.4","memory":"100Mi","image"`, 1)), 201, "")
	service, _ := sim.Service("one")
	sim.HoldJob("held")
	for _, event := range []string{"held", "event", "event", "event"} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/job/one", strings.NewReader(event))
		req.Header.Set("Authorization", "Bearer "+service.Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	got := ask(t, url, "GET", "/system/status", "").body
	if !strings.Contains(got, `"name":"own","cpu":{"capacity_cores":1000,"request_cores":900}`) || !strings.Contains(got, `"name":"front","cpu":{"capacity_cores":9000}`) {
		t.Errorf("%s", got)
	}
	if !strings.Contains(got, `"Pending":2`) || !strings.Contains(got, `"Running":2`) {
		t.Errorf("%s", got)
	}
}

func TestAllowedImageRepositories(t *testing.T) {
	_, url := serve(t, oscarsim.Config{})
	want(t, ask(t, url, "PUT", "/system/config", `{"allowed_image_repositories":["ghcr.io/ours"]}`), 200, `["ghcr.io/ours"]`)
	got := ask(t, url, "POST", "/system/services", bare("one"))
	if got.status != 500 || !strings.HasPrefix(got.body, "Error creating the service: image i is not allowed") {
		t.Fatalf("got %+v", got)
	}
	want(t, ask(t, url, "POST", "/system/services", strings.Replace(bare("one"), `"i"`, `"ghcr.io/ours/i"`, 1)), 201, "")
}

func TestControlOverHTTP(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{ClusterID: "a"})
	want(t, ask(t, url, "PUT", "/_sim/services", plain("one")), 204, "")
	want(t, ask(t, url, "PUT", "/_sim/services", plain("one")), 400, "A service with the provided name already exists")
	want(t, ask(t, url, "PUT", "/_sim/objects/one/in/deep/er.txt", "data"), 204, "")
	want(t, ask(t, url, "PUT", "/_sim/objects/stranger/file", "data"), 204, "")
	want(t, ask(t, url, "PUT", "/_sim/half-created/half", ""), 204, "")
	want(t, ask(t, url, "PUT", "/_sim/secrets/left", ""), 204, "")
	want(t, ask(t, url, "PUT", "/_sim/faults", `{"op":"get","fault":"late","count":1,"delay":"1ms"}`), 204, "")
	var got oscarsim.State
	if err := json.Unmarshal([]byte(ask(t, url, "GET", "/_sim/state", "").body), &got); err != nil {
		t.Fatal(err)
	}
	if got.ClusterID != "a" || len(got.Services) != 2 || len(got.Buckets) != 2 || len(got.Jobs) != 1 || got.Secrets["oscar-svc/left"] == nil {
		t.Fatalf("state %+v", got)
	}
	if !slices.Contains(got.Buckets[0].Objects, "in/deep/er.txt") || len(sim.Jobs("one")) != 1 {
		t.Fatalf("buckets %+v", got.Buckets)
	}
	if len(got.Calls) != 0 || len(sim.Log()) != 0 {
		t.Fatalf("calls %v, log %v", got.Calls, sim.Log())
	}
	resp, err := http.Get(url + "/_sim/state")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Fatalf("without credentials: %d", resp.StatusCode)
	}
}

func TestBodyLimit(t *testing.T) {
	_, url := serve(t, oscarsim.Config{})
	want(t, ask(t, url, "POST", "/system/services", strings.Repeat(" ", 8<<20)), 400, "The service specification is not valid: EOF")
	// Too large: 413, unless the connection goes first while the client still writes.
	if got := ask(t, url, "POST", "/system/services", strings.Repeat(" ", 8<<20+1)); got.err == nil && got.status != 413 {
		t.Fatalf("got %+v", got)
	}
}
