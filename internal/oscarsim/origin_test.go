package oscarsim_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// TestAJobIsGivenTheOwnersKeysOfItsOrigin: two OSCARs with the same users; the worker asks the other one with what the
// Job came with, and mounts what that user has there.
func TestAJobIsGivenTheOwnersKeysOfItsOrigin(t *testing.T) {
	cfg := oscarsim.Config{Users: physicist, Groups: []string{"physics"}}
	cfg.ClusterID = "home"
	_, home := serve(t, cfg)
	cfg.ClusterID = "away"
	sim, url := serve(t, cfg)
	if err := sim.PutService(`{"name":"svc","image":"i","script":"s","visibility":"public","annotations":{"oscar.grycap/origin-cluster":"the_Home"},
		"clusters":{"the_Home":{"endpoint":"` + home + `/"}},"storage_providers":{"minio":{"default":{"endpoint":"http://minio.home.example.org:9000"}}}}`); err != nil {
		t.Fatal(err)
	}
	const alice = "sim.62bb11b4@egi-eu.z"
	if got := asUser(t, url, alice, "GET", "/system/services", ""); got.status != http.StatusOK {
		t.Fatal(got) // which makes her MinIO user
	}
	if got := asUser(t, url, alice, "POST", "/job/svc", "e"); got.status != http.StatusCreated {
		t.Fatal(got)
	}
	jobs := sim.Jobs("svc")
	want := oscarsim.MinIOKeys{
		Secret: "62bb11b4-origin-minio-the-home", Endpoint: "http://minio.home.example.org:9000", AccessKey: "62bb11b4@egi-eu", SecretKey: "sim-key-of-62bb11b4@egi-eu",
	}
	if len(jobs) != 1 || jobs[0].MinIO == nil || *jobs[0].MinIO != want {
		t.Fatalf("%+v", jobs)
	}
	if data := sim.State().Secrets[jobs[0].Namespace+"/"+want.Secret]; data["accessKey"] != want.AccessKey || data["secretKey"] != want.SecretKey {
		t.Errorf("the Secret is %v", data)
	}
	// The home OSCAR does not know the worker's service by its token.
	view, _ := sim.Service("svc")
	got := asUser(t, url, view.Token, "POST", "/job/svc", `{"Records":[{"requestParameters":{"principalId":"u","sourceIPAddress":"10.0.0.1"}}]}`)
	if got.status != http.StatusInternalServerError || !strings.HasPrefix(got.body, "error fetching origin MinIO credentials: origin /system/config returned status 4") {
		t.Errorf("%+v", got)
	}
}

// TestAKilledOSCARDoesNotWaitForTheOrigin, which answers nothing.
func TestAKilledOSCARDoesNotWaitForTheOrigin(t *testing.T) {
	asked, end := make(chan struct{}), make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(asked); <-end }))
	defer hangs.Close()
	defer close(end)
	sim, url := serve(t, oscarsim.Config{})
	if err := sim.PutService(`{"name":"svc","image":"i","script":"s","annotations":{"oscar.grycap/origin-cluster":"o"},"clusters":{"o":{"endpoint":"` + hangs.URL + `"}},
		"storage_providers":{"minio":{"default":{"endpoint":"http://minio.o.example.org"}}}}`); err != nil {
		t.Fatal(err)
	}
	view, _ := sim.Service("svc")
	done := make(chan answer)
	go func() { done <- asUser(t, url, view.Token, "POST", "/job/svc", "e") }()
	<-asked
	sim.Kill()
	if got := <-done; got.err == nil || len(sim.Jobs("svc")) != 0 {
		t.Errorf("%+v, %d Jobs", got, len(sim.Jobs("svc")))
	}
}

func asUser(t *testing.T, url, token, method, path, body string) answer {
	t.Helper()
	return ask(t, url, method, path, body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
}
