package world_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// lone is a service on cluster b; the words are its name, image and bucket.
const lone = `{"name":"%s","cluster_id":"oscar-cluster-b","image":"%s","script":"#!/bin/sh\n",
"input":[{"storage_provider":"minio.default","path":"%s/in"}]}`

// star is a federation without members yet, as the clients of an OSCAR make one.
const star = `{"name":"main","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/main","script":"#!/bin/sh\n",
"federation":{"topology":"star","delegation":"static","members":[]}}`

func add(w *world.World, authorization, service string) (int, string) {
	w.T.Helper()
	status, _, text := w.Raw(http.MethodPost, "/system/federation/main?wait=2m",
		`{"members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"`+service+`","priority":7}]}`, authorization)
	return status, text
}

// A service that its owner made before becomes a member of his federation: its replica lives on with
// its token and its bucket, its own federation ends, and its jobs go with it.
func TestAServiceBecomesAMember(t *testing.T) { await.InVirtualTime(t, becomesAMember) }

func becomesAMember(t *testing.T) {
	w := world.New(t, world.Options{Wire: wire.New(1)})
	put := func(definition string) {
		t.Helper()
		s := world.Service(t, definition)
		if _, err := w.Client.Service(t.Context(), s.Name, ""); err != nil {
			_, err = w.Client.CreateService(t.Context(), s, client.CreateOptions{Wait: await.Limit})
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := w.Client.ChangeService(t.Context(), s, client.ChangeOptions{Wait: await.Limit}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 { // its generations are ahead of the federation's
		put(fmt.Sprintf(lone, "worker", fmt.Sprint("ghcr.io/grycap/worker:", i), "its-bucket"))
	}
	put(star)
	sim := w.Cluster("oscar-cluster-b").Sim
	before, _ := sim.Service("worker")
	job := w.Submit("worker", "an event")
	w.Eventually("its job is at the cluster", func() bool { return len(sim.Jobs("worker")) == 1 })
	former := w.Job(job).Federation

	if status, text := add(w, "Basic "+base64.StdEncoding.EncodeToString([]byte(world.User+":"+world.Password)), "worker"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	w.Eventually("all is ready", func() bool {
		f, err := w.Client.Federation(t.Context(), "main")
		return err == nil && f.Phase == "ready" && len(f.Replicas) == 2 && f.Replicas[1].Priority == 7 && f.Generation == 4
	})
	after, ok := sim.Service("worker")
	if !ok || after.Token != before.Token || after.Annotations["oscarfed/uid"] != before.Annotations["oscarfed/uid"] || after.Image != "ghcr.io/grycap/main" {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
	if bucket, ok := sim.Bucket("its-bucket"); !ok || bucket.Tags["from_service"] != "worker" {
		t.Errorf("its bucket is %+v %v", bucket, ok)
	}
	if _, err := w.Client.Federation(t.Context(), former); err == nil {
		t.Error("its own federation is still there")
	}
	main, err := w.Client.Federation(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("its job has followed", func() bool { return w.Job(job).Federation == main.UID })
	if err := sim.SetJobStatus("worker", sim.Jobs("worker")[0].Name, oscarsim.JobSucceeded); err != nil {
		t.Fatal(err)
	}
	w.AwaitJob(job, record.JobSucceeded)
	if _, err := w.Client.DeleteService(t.Context(), "main", client.DeleteOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	if _, ok := sim.Service("worker"); ok {
		t.Error("it was not deleted with its federation")
	}
	if _, ok := sim.Bucket("its-bucket"); !ok {
		t.Error("its bucket went with it")
	}
}

// What is another's, or has members of its own, does not become a member; neither does what stands
// beside what has to be made first.
func TestOnlyAnOwnLoneServiceBecomesAMember(t *testing.T) { await.InVirtualTime(t, onlyOwnLone) }

func onlyOwnLone(t *testing.T) {
	net := wire.New(1)
	w := world.New(t, world.Options{Wire: net, Issuer: issuer.Serve(t, world.Must(net.Host("issuer").Listen(t.Context()))(t), "")})
	w.AddUser("ann")
	w.AddUser("bob")
	ann, bob := w.Token("ann", map[string]any{"exp": time.Now().Add(time.Hour).Unix()}), w.Token("bob", map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
	create := func(token, definition string) {
		t.Helper()
		if _, err := w.WithToken(token).CreateService(t.Context(), world.Service(t, definition), client.CreateOptions{Wait: await.Limit}); err != nil {
			t.Fatal(err)
		}
	}
	token := func(definition string) string {
		return strings.Replace(definition, `"image"`, `"environment":{"secrets":{"refresh_token":"a-refresh-token"}},"image"`, 1)
	}
	create(ann, token(star))
	create(bob, fmt.Sprintf(lone, "his", "ghcr.io/grycap/his", "his-bucket"))
	create(ann, fmt.Sprintf(lone, "hers", "ghcr.io/grycap/hers", "her-bucket"))
	pair := strings.Replace(fmt.Sprintf(lone, "pair", "ghcr.io/grycap/pair", "pair-bucket"), `"input"`,
		`"federation":{"topology":"mesh","delegation":"static","members":[{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"pair1"}]},"input"`, 1)
	create(ann, token(pair))
	for _, service := range []string{"his", "pair"} {
		if status, text := add(w, "Bearer "+ann, service); status != http.StatusConflict || !strings.Contains(text, "exists already") {
			t.Errorf("%s: %d %s", service, status, text)
		}
	}
	mixed := `{"members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"hers"},{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"new"}]}`
	if status, _, text := w.Raw(http.MethodPost, "/system/federation/main", mixed, "Bearer "+ann); status != http.StatusConflict || !strings.Contains(text, "in a request of its own") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := add(w, "Bearer "+ann, "hers"); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}
