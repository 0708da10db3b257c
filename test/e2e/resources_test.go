package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// A user's buckets, volumes and quotas are asked of the OSCARs of his clusters with his own token:
// lists of all of them, single things of one, and what a cluster does not answer has a name.
func TestWhatAUserHasAtTheOSCARs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		w.AddUser(ann)
		w.AddUser("bob")
		w.AwaitStreams(w.CP)
		hers := "Bearer " + w.Token(ann, nil)
		buckets := func(authorization, query string) (int, string, []v1.Bucket) {
			t.Helper()
			status, header, text := w.Raw(http.MethodGet, "/system/buckets"+query, "", authorization)
			var list []v1.Bucket
			if status == 200 {
				if err := json.Unmarshal([]byte(text), &list); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				return status, header.Get("Oscarfed-Missing"), list
			}
			return status, text, nil
		}
		on := func(list []v1.Bucket, name string) string {
			var out []string
			for _, b := range list {
				if b.Name == name {
					out = append(out, b.ClusterID)
				}
			}
			return strings.Join(out, " ")
		}

		step(t, "one bucket is made on the cluster that is named, or the default one", func(t *testing.T) {
			for query, cluster := range map[string]string{"": a, "?cluster_id=" + b: b} {
				if status, header, text := w.Raw(http.MethodPost, "/system/buckets"+query, `{"bucket_name":"herbucket"}`, hers); status != 201 || text != "" || header.Get("Oscarfed-Cluster") != cluster {
					t.Errorf("on %s: %d %s %v", cluster, status, text, header)
				}
			}
			if status, missing, list := buckets(hers, ""); status != 200 || missing != "" || on(list, "herbucket") != a {
				t.Errorf("of the default cluster: %d %q %v", status, missing, list)
			}
			if status, missing, list := buckets(hers, "?cluster_id="+b); status != 200 || missing != "" || on(list, "herbucket") != a+" "+b {
				t.Errorf("with the named one: %d %q %v", status, missing, list)
			}
			if _, _, list := buckets("Bearer "+w.Token("bob", nil), "?cluster_id="+b); len(list) != 0 {
				t.Errorf("bob has %v", list)
			}
			status, _, text := w.Raw(http.MethodGet, "/system/buckets/herbucket?cluster_id="+b, "", hers)
			if status != 200 || !strings.HasPrefix(text, `{"bucket_name":"herbucket",`) {
				t.Errorf("one: %d %s", status, text)
			}
			if status, _, text := w.Raw(http.MethodGet, "/system/buckets/herbucket?cluster_id="+b, "", "Bearer "+w.Token("bob", nil)); status != 403 || text != "User 'bob' is not authorised" {
				t.Errorf("one of hers to bob: %d %s", status, text)
			}
		})

		step(t, "a list is of all clusters with a replica of hers", func(t *testing.T) {
			if err := createAs(w, w.Token(ann, nil), usersBody(), client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, owner := range []string{ann, "bob"} {
				w.Cluster(c).Sim.PutBucket("of" + owner)
				w.Cluster(c).Sim.TagBucket("of"+owner, map[string]string{"owner": owner})
			}
			if status, missing, list := buckets(hers, ""); status != 200 || missing != "" || on(list, "herbucket") != a+" "+b || on(list, "of"+ann) != c {
				t.Errorf("%d %q %v", status, missing, list)
			}
			if status, missing, list := buckets("Bearer "+w.Token("bob", nil), ""); status != 200 || missing != "" || len(list) != 0 {
				t.Errorf("bob's token went to a cluster that is none of his: %d %v", status, list)
			}
			if status, _, list := buckets("Bearer "+w.Token("bob", nil), "?cluster_id="+c); status != 200 || on(list, "ofbob") != c {
				t.Errorf("of the cluster that he names: %d %v", status, list)
			}
			w.Cluster(c).Sim.RemoveBucket("of" + ann)
			w.Cluster(c).Sim.RemoveBucket("ofbob")
		})

		step(t, "volumes", func(t *testing.T) {
			if status, _, text := w.Raw(http.MethodPost, "/system/volumes?cluster_id="+c, `{"name":"hers","size":"1Gi"}`, hers); status != 201 || !strings.Contains(text, `"name":"hers"`) {
				t.Errorf("%d %s", status, text)
			}
			if status, _, text := w.Raw(http.MethodGet, "/system/volumes", "", hers); status != 200 || !strings.Contains(text, `"cluster_id":"`+c+`"`) {
				t.Errorf("%d %s", status, text)
			}
			if status, header, _ := w.Raw(http.MethodGet, "/system/volumes/hers", "", hers); status != 200 || header.Get("Oscarfed-Cluster") != c {
				t.Errorf("without a cluster: %d of %s", status, header.Get("Oscarfed-Cluster"))
			}
			if status, _, text := w.Raw(http.MethodDelete, "/system/volumes/hers?cluster_id="+c, "", hers); status != 204 {
				t.Errorf("%d %s", status, text)
			}
		})

		step(t, "links, quotas and usage", func(t *testing.T) {
			for _, q := range []struct{ method, path, body, cluster, says string }{
				{http.MethodPost, "/system/buckets/herbucket/presign?cluster_id=" + b, `{"object_key":"x","operation":"upload"}`, b, `"method":"PUT"`},
				{http.MethodGet, "/system/quotas/user?cluster_id=" + c, "", c, `"user_id":"` + ann + `"`},
				{http.MethodGet, "/system/metrics", "", a, `"services_count_total":1`},
				{http.MethodGet, "/system/metrics/breakdown?group_by=service&format=csv", "", a, "key"},
				{http.MethodGet, "/system/metrics/" + names[1], "", b, `"service_name":"` + names[1] + `"`},
			} {
				status, header, text := w.Raw(q.method, q.path, q.body, hers)
				if status != 200 || header.Get("Oscarfed-Cluster") != q.cluster || !strings.Contains(text, q.says) {
					t.Errorf("%s: %d of %s: %s", q.path, status, header.Get("Oscarfed-Cluster"), text)
				}
			}
			if status, _, text := w.Raw(http.MethodGet, "/system/quotas/user/bob", "", hers); status != 403 || text != "forbidden" {
				t.Errorf("another's quotas: %d %s", status, text)
			}
		})

		step(t, "names that lead elsewhere", func(t *testing.T) {
			for _, name := range []string{"..%2fservices", "a%2fb", "%2e%2e", "a%00", "a%0d%0ab", "a,b", "..%252f"} {
				if status, header, text := w.Raw(http.MethodDelete, "/system/buckets/"+name, "", hers); status != 404 || header.Get("Oscarfed-Cluster") != "" {
					t.Errorf("%s: %d %s", name, status, text)
				}
			}
		})

		step(t, "the administrator's rights are not lent", func(t *testing.T) {
			for _, path := range []string{"/system/buckets", "/system/volumes", "/system/buckets/herbucket", "/system/quotas/user/" + ann} {
				if status, _, text := w.Do(http.MethodGet, path, ""); status != 403 || !strings.Contains(text, "--relay-admin") {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
		})

		step(t, "nor for a deletion without a cluster", func(t *testing.T) {
			if status, _, text := w.Do(http.MethodDelete, "/system/buckets/herbucket", ""); status != 403 || !strings.Contains(text, "--relay-admin") {
				t.Errorf("%d %s", status, text)
			}
		})

		step(t, "a cluster that lets her not in, and one of other groups", func(t *testing.T) {
			w.Cluster(b).Sim.Deny(ann, true)
			if status, missing, list := buckets(hers, ""); status != 200 || missing != b+": the OSCAR of cluster "+b+" does not let you in" || on(list, "herbucket") != a {
				t.Errorf("%d %q %v", status, missing, list)
			}
			if status, _, text := w.Raw(http.MethodDelete, "/system/buckets/herbucket?cluster_id="+b, "", hers); status != 403 || !strings.Contains(text, "does not let you in") {
				t.Errorf("%d %s", status, text)
			}
			w.Cluster(b).Sim.Deny(ann, false)
			spec := v1.ClusterSpec{ClusterID: b, Endpoint: w.Cluster(b).URL, AllowedGroups: []string{"elsewhere"}}
			world.Must(w.Client.UpdateCluster(t.Context(), spec))(t)
			if status, _, text := w.Raw(http.MethodGet, "/system/buckets/herbucket?cluster_id="+b, "", hers); status != 403 || !strings.Contains(text, "other groups") {
				t.Errorf("%d %s", status, text)
			}
			if status, _, _ := buckets("Bearer "+w.Token("bob", nil), "?cluster_id="+b); status != 403 {
				t.Errorf("a list: %d", status)
			}
			// The keys of its MinIO: workers get hers, since a replica of hers is there.
			if status, _, text := w.Raw(http.MethodGet, "/system/config?cluster_id="+b, "", hers); status != 200 || !strings.Contains(text, `"access_key":"`+ann+`"`) {
				t.Errorf("her keys: %d %s", status, text)
			}
			if status, _, text := w.Raw(http.MethodGet, "/system/config?cluster_id="+b, "", "Bearer "+w.Token("bob", nil)); status != 403 || !strings.Contains(text, "other groups") {
				t.Errorf("bob's token went to a cluster of other groups: %d %s", status, text)
			}
			first := v1.ClusterSpec{ClusterID: a, Endpoint: w.Cluster(a).URL, AllowedGroups: []string{"elsewhere"}}
			world.Must(w.Client.UpdateCluster(t.Context(), first))(t)
			if status, header, text := w.Raw(http.MethodGet, "/system/config", "", "Bearer "+w.Token("bob", nil)); status != 200 ||
				!strings.Contains(header.Get("Oscarfed-Missing"), "other groups") || !strings.Contains(text, `"access_key":"","secret_key":""`) {
				t.Errorf("bob's token went to the default cluster, which is of other groups: %d %v %s", status, header, text)
			}
			first.AllowedGroups = nil
			world.Must(w.Client.UpdateCluster(t.Context(), first))(t)
			spec.AllowedGroups = nil
			world.Must(w.Client.UpdateCluster(t.Context(), spec))(t)
			if status, _, _ := buckets(hers, "?cluster_id=oscar-cluster-z"); status != 404 {
				t.Errorf("an unknown cluster: %d", status)
			}
		})

		step(t, "a cluster that is away is named, and a single thing there is 503", func(t *testing.T) {
			if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpBuckets, Fault: oscarsim.FaultCrash}); err != nil {
				t.Fatal(err)
			}
			if status, missing, list := buckets(hers, ""); status != 200 || !strings.HasPrefix(missing, b+": ") || on(list, "herbucket") != a {
				t.Errorf("%d %q %v", status, missing, list)
			}
			w.Cluster(b).Sim.ClearFaults()
			w.Cluster(c).Stop()
			w.Eventually("its stream is gone", func() bool {
				status, missing, list := buckets(hers, "")
				return status == 200 && strings.HasPrefix(missing, c+": its syncer has no stream") && on(list, "herbucket") == a+" "+b
			})
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				if status, header, text := w.Raw(method, "/system/buckets/x?cluster_id="+c, "", hers); status != 503 || header.Get("Retry-After") == "" || !strings.Contains(text, c) {
					t.Errorf("%s: %d %s", method, status, text)
				}
			}
		})
		if strings.Contains(w.Log.String(), w.Token(ann, nil)) {
			t.Error("her token is in a log")
		}
	})
}

// OSCAR's clients name no cluster when they delete a bucket or a volume of a list, or change a bucket: it is
// the one that was shown, or none.
func TestADeletionTakesNoBucketOfAnotherCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) {
			o.Sim = func(s *oscarsim.Config) { s.NoVolumes = s.ClusterID == c }
		})
		w.AddUser(ann)
		w.AwaitStreams(w.CP)
		hers := "Bearer " + w.Token(ann, nil)
		if err := createAs(w, w.Token(ann, nil), usersBody(), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		bucket := func(cluster, name string) {
			w.Cluster(cluster).Sim.PutBucket(name, "in/object")
			w.Cluster(cluster).Sim.TagBucket(name, map[string]string{"owner": ann})
		}
		volume := func(cluster, name string) {
			t.Helper()
			if status, _, text := w.Raw(http.MethodPost, "/system/volumes?cluster_id="+cluster, `{"name":"`+name+`","size":"1Gi"}`, hers); status != 201 {
				t.Fatalf("%d %s", status, text)
			}
		}
		type request struct{ method, path, body string }
		deletion := func(kind, name string) request {
			return request{http.MethodDelete, "/system/" + kind + "/" + name, ""}
		}
		change := func(name string) request {
			return request{http.MethodPut, "/system/buckets", `{"bucket_name":"` + name + `","visibility":"public"}`}
		}
		answers := func(r request, status int, cluster, says string) {
			t.Helper()
			got, header, text := w.Raw(r.method, r.path, r.body, hers)
			if got != status || header.Get("Oscarfed-Cluster") != cluster || !strings.Contains(text, says) {
				t.Errorf("%v: %d of %q: %s", r, got, header.Get("Oscarfed-Cluster"), text)
			}
		}
		has := func(kind, name string, clusters ...string) {
			t.Helper()
			for _, id := range []string{a, b, c} {
				_, _, text := w.Raw(http.MethodGet, "/system/"+kind+"?cluster_id="+id, "", hers)
				var list []struct {
					Bucket  string `json:"bucket_name"`
					Name    string `json:"name"`
					Cluster string `json:"cluster_id"`
				}
				if err := json.Unmarshal([]byte(text), &list); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				var found bool
				for _, e := range list {
					found = found || e.Bucket+e.Name == name && e.Cluster == id
				}
				if found != slices.Contains(clusters, id) {
					t.Errorf("%s has %s: %v", id, name, found)
				}
			}
		}
		for _, id := range []string{a, b} {
			bucket(id, "twin")
			volume(id, "twins")
		}

		step(t, "several clusters have it", func(t *testing.T) {
			answers(deletion("buckets", "twin"), 409, "", `bucket "twin" is on several clusters; say which with ?cluster_id=`+"\n"+a+"\n"+b)
			answers(change("twin"), 409, "", "\n"+a+"\n"+b)
			answers(deletion("volumes", "twins"), 409, "", `volume "twins" is on several clusters; say which with ?cluster_id=`+"\n"+a+"\n"+b)
			has("buckets", "twin", a, b)
			has("volumes", "twins", a, b)
		})

		step(t, "a cluster that does not answer may have it", func(t *testing.T) {
			for _, op := range []oscarsim.Op{oscarsim.OpBuckets, oscarsim.OpVolumes} {
				if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: op, Fault: oscarsim.FaultCrash}); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range []request{deletion("buckets", "twin"), change("twin"), deletion("buckets", "none"), deletion("volumes", "twins")} {
				answers(r, 503, "", "?cluster_id=: "+b+": ")
			}
			bucket(c, "twin")
			answers(deletion("buckets", "twin"), 409, "", "\n"+a+"\n"+c)
			answers(deletion("buckets", "twin?cluster_id="+c), 204, c, "")
			w.Cluster(b).Sim.ClearFaults()
			w.Cluster(b).Sim.Deny(ann, true)
			answers(deletion("buckets", "twin"), 503, "", b+": the OSCAR of cluster "+b+" does not let you in")
			w.Cluster(b).Sim.Deny(ann, false)
			has("buckets", "twin", a, b)
			has("volumes", "twins", a, b)
		})

		step(t, "one cluster has it", func(t *testing.T) {
			bucket(b, "single")
			answers(change("single"), 204, b, "")
			answers(deletion("buckets", "single"), 204, b, "")
			answers(deletion("buckets", "twin?cluster_id="+a), 204, a, "")
			answers(deletion("volumes", "twins?cluster_id="+a), 204, a, "")
			has("buckets", "twin", b)
			answers(deletion("buckets", "twin"), 204, b, "")
			answers(deletion("volumes", "twins"), 204, b, "")
			has("buckets", "twin")
			has("volumes", "twins")
		})

		step(t, "nobody has it", func(t *testing.T) {
			answers(deletion("buckets", "twin"), 404, a, "")
			answers(change("twin"), 500, a, "")
		})

		step(t, "a cluster that is closed to her has none of hers", func(t *testing.T) {
			bucket(b, "single")
			spec := v1.ClusterSpec{ClusterID: c, Endpoint: w.Cluster(c).URL, AllowedGroups: []string{"elsewhere"}}
			world.Must(w.Client.UpdateCluster(t.Context(), spec))(t)
			answers(deletion("buckets", "single"), 204, b, "")
		})
	})
}

// OSCAR's clients name no cluster when they read a bucket or a volume of a list, or ask for a link to an object: the
// default one answered that there is none.
func TestAReadFindsTheBucketOfAnotherCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t)
		w.AddUser(ann)
		w.AwaitStreams(w.CP)
		hers := "Bearer " + w.Token(ann, nil)
		if err := createAs(w, w.Token(ann, nil), usersBody(), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		bucket := func(cluster, name, owner string) {
			w.Cluster(cluster).Sim.PutBucket(name, "in/object")
			w.Cluster(cluster).Sim.TagBucket(name, map[string]string{"owner": owner})
		}
		bucket(b, "single", ann)
		bucket(a, "another", "somebody")
		bucket(c, "another", ann)
		for _, id := range []string{a, c} {
			bucket(id, "twin", ann)
		}
		for _, id := range []string{b, c} {
			bucket(id, "twins", ann)
		}
		if status, _, text := w.Raw(http.MethodPost, "/system/volumes?cluster_id="+b, `{"name":"volume","size":"1Gi"}`, hers); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		answers := func(method, path string, status int, cluster, says string) {
			t.Helper()
			body := ""
			if method == http.MethodPost {
				body = `{"object_key":"in/object","operation":"download"}`
			}
			got, header, text := w.Raw(method, path, body, hers)
			if got != status || header.Get("Oscarfed-Cluster") != cluster || !strings.Contains(text, says) {
				t.Errorf("%s %s: %d of %q: %s", method, path, got, header.Get("Oscarfed-Cluster"), text)
			}
		}
		reads := func(name string, status int, cluster, says string) {
			t.Helper()
			answers(http.MethodGet, "/system/buckets/"+name, status, cluster, says)
			answers(http.MethodPost, "/system/buckets/"+name+"/presign", status, cluster, says)
		}
		reads("single", 200, b, "in/object")
		reads("another", 200, c, "in/object")
		reads("twin", 200, a, "in/object")
		reads("twins", 409, "", `bucket "twins" is on several clusters; say which with ?cluster_id=`+"\n"+b+"\n"+c)
		answers(http.MethodGet, "/system/buckets/single?cluster_id="+a, 500, a, "NoSuchBucket")
		answers(http.MethodGet, "/system/buckets/none", 500, a, "NoSuchBucket")
		answers(http.MethodPost, "/system/buckets/none/presign", 404, a, "")
		answers(http.MethodGet, "/system/volumes/volume", 200, b, "volume")
		answers(http.MethodGet, "/system/volumes/none", 404, a, "")

		// One that lets nobody in, while its issuer is away for example, may have it: that of the same name elsewhere is
		// another one.
		for _, op := range []oscarsim.Op{oscarsim.OpBuckets, oscarsim.OpPresign} {
			if err := w.Cluster(a).Sim.SetFault(oscarsim.Fault{Op: op, Fault: oscarsim.FaultDeny}); err != nil {
				t.Fatal(err)
			}
		}
		reads("twin", 403, "", "does not let you in")
		w.Cluster(a).Sim.ClearFaults()
		reads("twin", 200, a, "in/object")

		// A cluster that is away takes nothing from what was found, or was not.
		if err := w.Cluster(c).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpBuckets, Fault: oscarsim.FaultCrash}); err != nil {
			t.Fatal(err)
		}
		reads("single", 200, b, "in/object")
		answers(http.MethodGet, "/system/buckets/none", 500, a, "NoSuchBucket")
	})
}

// With --relay-admin the administrator has at the OSCAR what its own administrator has.
func TestTheAdministratorsRightsAreLent(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		lends := true
		w := newWorld(t, func(o *world.Options) { o.Stream = func(c *relay.Config) { c.Limits.Admin = lends } })
		w.AwaitStreams(w.CP)
		if status, _, text := w.Do(http.MethodPost, "/system/buckets?cluster_id="+b, `{"bucket_name":"theadmins"}`); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		if status, _, text := w.Do(http.MethodGet, "/system/buckets?cluster_id="+b, ""); status != 200 || !strings.Contains(text, `{"bucket_name":"theadmins",`) {
			t.Errorf("%d %s", status, text)
		}
		// A cluster that does not lend them holds up no deletion.
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		lends = false
		w.Cluster(c).Stop()
		w.Cluster(c).Start()
		w.Eventually("c lends nothing", func() bool {
			_, header, _ := w.Do(http.MethodGet, "/system/buckets", "")
			return strings.Contains(header.Get("Oscarfed-Missing"), "--relay-admin")
		})
		if status, header, text := w.Do(http.MethodDelete, "/system/buckets/theadmins", ""); status != 204 || header.Get("Oscarfed-Cluster") != b {
			t.Errorf("%d of %q: %s", status, header.Get("Oscarfed-Cluster"), text)
		}
	})
}
