package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// Where the origin's OSCAR cannot be reached, as behind NAT, the workers' syncers get the keys
// through the control plane. What it gives is the caller's own, at clusters that let him
// in; the administrator gets nothing.
func TestKeysComeThroughTheControlPlane(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) {
			o.OriginStorage = true
			o.Secrets = append(o.Secrets, "sim-key-of-"+ann)
			o.Syncer = func(c *syncer.Config) { c.OriginLook = 500 * time.Millisecond }
		})
		w.AddUser(ann)
		spec := v1.ClusterSpec{ClusterID: a, Endpoint: "https://127.0.0.1:1"}
		world.Must(w.Client.UpdateCluster(t.Context(), spec))(t)
		if err := createAs(w, w.Token(ann, nil), usersBody(), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the workers can use the origin's storage", func() bool { return readable(w, true) })
		world.Must(w.Client.SetClusterState(t.Context(), a, "cordoned"))(t)
		id := world.Must(w.WithToken(w.Token(ann, nil)).SubmitJob(t.Context(), names[0], []byte(uploaded), client.JobOptions{}))(t).ID
		if cluster, keys := keysOf(t, w, id); cluster == a || keys == nil || keys.AccessKey != ann || keys.Endpoint != w.Cluster(a).URL {
			t.Errorf("at %s, with %+v", cluster, keys)
		}

		// Both say that their minio.default is the origin's; to send that back changes nothing.
		for i, name := range names[:2] {
			status, header, shown := w.Raw(http.MethodGet, "/system/services/"+name, "", "Bearer "+w.Token(ann, nil))
			if !strings.Contains(shown, `"default":{"endpoint":"`+w.Cluster(a).URL+`","verify":`) {
				t.Errorf("%s: %d %s", name, status, shown)
			}
			if i > 0 {
				continue // a change is the coordinator's
			}
			status, _, answer := w.Raw(http.MethodPut, "/system/services", shown, "Bearer "+w.Token(ann, nil))
			_, after, again := w.Raw(http.MethodGet, "/system/services/"+name, "", "Bearer "+w.Token(ann, nil))
			if status != 204 || after.Get("ETag") != header.Get("ETag") || again != shown {
				t.Errorf("it was sent back: %d %s, %s and then %s", status, answer, header.Get("ETag"), after.Get("ETag"))
			}
		}

		ask := func(who, cluster string) (int, http.Header, string) {
			return w.Raw(http.MethodGet, "/system/config?cluster_id="+cluster, "", "Bearer "+w.Token(who, nil))
		}
		// Clients of OSCAR name no cluster and mean the default one. Without keys they go on
		// where they want no file.
		byDefault := func(authorization string) (int, http.Header, string) {
			return w.Raw(http.MethodGet, "/system/config", "", authorization)
		}
		if status, header, answer := byDefault("Bearer " + w.Token(ann, nil)); status != 200 || header.Get("Oscarfed-Missing") != "" ||
			!strings.Contains(answer, `"endpoint":"`+w.Cluster(a).URL+`"`) || !strings.Contains(answer, `"access_key":"`+ann+`","secret_key":"sim-key-of-`+ann+`"`) {
			t.Errorf("her own, of the default cluster: %d %v %s", status, header, answer)
		}
		if status, header, answer := w.Do(http.MethodGet, "/system/config", ""); status != 200 || !strings.Contains(header.Get("Oscarfed-Missing"), "root keys") ||
			!strings.Contains(answer, `"endpoint":"`+w.Cluster(a).URL+`"`) || !strings.Contains(answer, `"access_key":"","secret_key":""`) {
			t.Errorf("the administrator, of the default cluster: %d %v %s", status, header, answer)
		}
		status, header, answer := ask(ann, a)
		if status != 200 || !strings.Contains(answer, `"access_key":"`+ann+`","secret_key":"sim-key-of-`+ann+`"`) || header.Get("Cache-Control") != "no-store" {
			t.Errorf("her own: %d %v %s", status, header, answer)
		}
		if status, _, answer := ask(ann, "oscar-cluster-z"); status != 404 {
			t.Errorf("an unknown cluster: %d %s", status, answer)
		}
		w.AddUser("bob")
		w.Cluster(a).Sim.Deny("bob", true)
		if status, _, answer := ask("bob", a); status != 403 || !strings.Contains(answer, "does not let you in") {
			t.Errorf("a cluster that does not let him in: %d %s", status, answer)
		}
		if status, header, answer := byDefault("Bearer " + w.Token("bob", nil)); status != 200 || !strings.Contains(header.Get("Oscarfed-Missing"), "does not let you in") ||
			!strings.Contains(answer, `"access_key":"","secret_key":""`) {
			t.Errorf("a default cluster that does not let him in: %d %v %s", status, header, answer)
		}
		if status, _, answer := w.Do(http.MethodGet, "/system/config?cluster_id="+a, ""); status != 403 || !strings.Contains(answer, "root keys") {
			t.Errorf("the administrator: %d %s", status, answer)
		}
		if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultCrash}); err != nil {
			t.Fatal(err)
		}
		if status, header, answer := ask(ann, b); status != 503 || header.Get("Retry-After") == "" {
			t.Errorf("a cluster whose OSCAR is away: %d %s", status, answer)
		}
		w.Cluster(b).Sim.ClearFaults()
		w.Cluster(c).Stop()
		w.Eventually("a cluster without a stream is said to be away", func() bool {
			status, _, answer := ask(ann, c)
			return status == 503 && strings.Contains(answer, "no stream")
		})
		if strings.Contains(w.Log.String(), "sim-key-of-"+ann) {
			t.Error("her keys are in a log")
		}
	})
}
