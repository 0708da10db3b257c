package model_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

// What goes wrong: clusters that are away, OSCARs that misbehave, users who
// change a replica at its OSCAR, instances that stop, and time that passes.

func (m *machine) drawCluster(rt *rapid.T) *cluster {
	return m.clusters[rapid.SampledFrom(clusterNames).Draw(rt, "cluster")]
}

// away stops a cluster's syncer; the second time it comes back.
func (m *machine) away(rt *rapid.T) {
	c := m.drawCluster(rt)
	if c.away {
		m.back(rt, c)
		return
	}
	rt.Logf("%s is away", c.id)
	m.w.Cluster(c.id).Stop()
	c.away = true
	m.disturbed(c.id)
}

func (m *machine) back(rt *rapid.T, c *cluster) {
	rt.Logf("%s is back", c.id)
	m.w.Cluster(c.id).Start()
	c.away = false
}

// syncer restarts a syncer: nothing is to be noticed of it.
func (m *machine) syncer(rt *rapid.T) {
	c := m.drawCluster(rt)
	if c.away {
		rt.Skip("it is away")
	}
	rt.Logf("the syncer of %s starts again", c.id)
	m.w.Cluster(c.id).Stop()
	m.w.Cluster(c.id).Start()
}

// fault makes an OSCAR misbehave.
func (m *machine) fault(rt *rapid.T) {
	c := m.drawCluster(rt)
	f := oscarsim.Fault{
		Op: rapid.SampledFrom([]oscarsim.Op{oscarsim.OpCreate, oscarsim.OpUpdate, oscarsim.OpDelete, oscarsim.OpGet, oscarsim.OpList, oscarsim.OpAny}).Draw(rt, "op"),
		Fault: rapid.SampledFrom([]string{
			oscarsim.Fault500, oscarsim.Fault500After, oscarsim.FaultHang, oscarsim.FaultRefuse, oscarsim.FaultLate, oscarsim.FaultDeny, oscarsim.FaultCrash,
		}).Draw(rt, "fault"),
		Count: rapid.IntRange(0, 3).Draw(rt, "count"), Delay: 300 * time.Millisecond,
	}
	writes := f.Op == oscarsim.OpCreate || f.Op == oscarsim.OpUpdate || f.Op == oscarsim.OpDelete
	if !writes && slices.Contains([]string{oscarsim.FaultHang, oscarsim.FaultLate, oscarsim.FaultCrash}, f.Fault) {
		rt.Skip("a read has its own, long limit, and does nothing late")
	}
	if f.Op == oscarsim.OpDelete && f.Fault == oscarsim.FaultCrash {
		rt.Skip("it leaves a webhook that nobody is told of")
	}
	rt.Logf("%s: %s of %s, %d times", c.id, f.Fault, f.Op, f.Count)
	if err := m.w.Cluster(c.id).Sim.SetFault(f); err != nil {
		rt.Fatal(err)
	}
	c.faulty = true
	m.disturbed(c.id)
}

// restart kills an OSCAR in the middle of what it does.
func (m *machine) restart(rt *rapid.T) {
	c := m.drawCluster(rt)
	rt.Logf("the OSCAR of %s is killed", c.id)
	m.disturbed(c.id)
	m.w.Cluster(c.id).Sim.Kill()
}

// cordon gives a cluster another state.
func (m *machine) cordon(rt *rapid.T) {
	c := m.drawCluster(rt)
	m.setState(rt, c, rapid.SampledFrom([]string{"active", "paused", "cordoned"}).Draw(rt, "state"))
}

func (m *machine) setState(rt *rapid.T, c *cluster, state string) {
	_, err := m.api(rt).SetClusterState(m.l.ctx, c.id, state)
	expect(rt, c.id+" is "+state, err, codes{""})
	c.state = state
	if state == "paused" {
		m.disturbed(c.id)
	}
}

// time passes at the control planes. A decider looks again at what its cluster's
// record touches.
func (m *machine) time(rt *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Minute, 20 * time.Minute, 25 * time.Hour, 35 * 24 * time.Hour}).Draw(rt, "for")
	rt.Logf("%s pass", d)
	m.clock.Advance(d)
	m.disturbed("")
	m.nudge(rt)
}

func (m *machine) nudge(rt *rapid.T) {
	for _, id := range clusterNames {
		spec := v1.ClusterSpec{ClusterID: id, Endpoint: m.w.Cluster(id).URL, Labels: map[string]string{"nudge": fmt.Sprint(m.next())}}
		if _, err := m.up()[0].UpdateCluster(m.l.ctx, spec); err != nil {
			rt.Fatal(err)
		}
	}
}

// instance stops a control plane, or starts the one that is down.
func (m *machine) instance(rt *rapid.T) {
	for i, in := range m.instances {
		if in == nil {
			rt.Logf("instance %d starts", i)
			m.startInstance(i)
			return
		}
	}
	i := rapid.IntRange(0, 1).Draw(rt, "which")
	rt.Logf("instance %d stops", i)
	m.stopInstance(i)
}

// upload puts an object into the bucket of a federation.
func (m *machine) upload(rt *rapid.T) {
	if !m.store(rt, m.standing(rt)) {
		rt.Skip("its bucket is not there, or somebody may just be deleting it")
	}
}

// store puts an object into the coordinator's bucket, if that stands.
func (m *machine) store(rt *rapid.T, g *group) bool {
	c := m.clusters[g.coordinator]
	sim := m.w.Cluster(g.coordinator).Sim
	if _, ok := sim.Bucket(g.bucket()); !ok || c.drifts[g.name] > 0 {
		return false
	}
	object := fmt.Sprintf("in/object-%d", m.next())
	rt.Logf("%s goes into %s on %s", object, g.bucket(), c.id)
	sim.PutBucket(g.bucket(), object)
	c.objects[g.bucket()] = append(c.objects[g.bucket()], object)
	return true
}

// strange makes somebody else's service, or takes it away again.
func (m *machine) strange(rt *rapid.T) {
	c := m.drawCluster(rt)
	name := rapid.SampledFrom(append([]string{shared}, groupNames...)).Draw(rt, "service")
	sim := m.w.Cluster(c.id).Sim
	if c.foreign[name] != "" {
		rt.Logf("the foreign %s/%s goes", c.id, name)
		m.byHand(rt, http.MethodDelete, place{c.id, name}, "")
		if _, stands := sim.Service(name); stands {
			return
		}
		delete(c.foreign, name)
		for _, g := range m.in(creating) {
			if slices.Contains(g.places(g.words), place{c.id, name}) {
				g.blocked = false
			}
		}
		return
	}
	if err := sim.PutService(fmt.Sprintf(`{"name":%q,"image":"somebody/elses","script":"echo %d\n"}`, name, m.next())); err != nil {
		rt.Skip("a service of that name stands already")
	}
	m.foreign(rt, c, name)
}

// foreign notes a service of somebody else as it was made.
func (m *machine) foreign(rt *rapid.T, c *cluster, name string) {
	v, ok := m.w.Cluster(c.id).Sim.Service(name)
	if !ok || v.Image != "somebody/elses" {
		rt.Fatalf("the foreign service %s/%s that was just made is %+v", c.id, name, v)
	}
	rt.Logf("a foreign %s/%s appears", c.id, name)
	c.foreign[name] = string(v.JSON)
	m.disturbed(c.id)
}

// drift changes a replica at its OSCAR, deletes it there, or deletes it and makes it
// again.
func (m *machine) drift(rt *rapid.T) {
	g := m.standing(rt)
	p := rapid.SampledFrom(g.places(g.words)).Draw(rt, "replica")
	c := m.clusters[p.cluster]
	sim := m.w.Cluster(p.cluster).Sim
	v, ok := sim.Service(p.service)
	if !ok || c.foreign[p.service] != "" || c.faulty {
		rt.Skip("it is not there, or its OSCAR cannot be asked")
	}
	how := rapid.SampledFrom([]string{"change", "delete", "make again"}).Draw(rt, "how")
	if how != "change" && !m.untouched(rt, g, p) {
		// OSCAR knows no conditional PUT: one that is on its way meets what it meets.
		rt.Skip("its syncer may just be writing")
	}
	rt.Logf("%s by hand: %s", how, p)
	c.drifts[p.service]++
	if how == "change" {
		var doc map[string]any
		if err := json.Unmarshal(v.JSON, &doc); err != nil {
			rt.Fatal(err)
		}
		doc["memory"] = fmt.Sprintf("%dMi", 600+m.next())
		doc["environment"] = map[string]any{"secrets": map[string]string{"KEY": secretValues[2]}}
		delete(doc, "annotations")
		body, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		m.byHand(rt, http.MethodPut, place{p.cluster, ""}, string(body))
		return
	}
	// OSCAR's own DELETE takes the buckets along; that is its user's doing.
	delete(c.objects, g.bucket())
	c.emptied[g.bucket()] = true
	delete(g.owns, p.cluster)
	m.byHand(rt, http.MethodDelete, p, "")
	if how == "make again" {
		annotations := map[string]string{"oscarfed/uid": v.Annotations["oscarfed/uid"], "oscarfed/generation": v.Annotations["oscarfed/generation"]}
		body, err := json.Marshal(map[string]any{"name": p.service, "image": "somebody/elses", "script": "true\n", "annotations": annotations})
		if err != nil {
			rt.Fatal(err)
		}
		if err := sim.PutService(string(body)); err != nil {
			return // ours was made again first
		}
		m.foreign(rt, c, p.service)
	}
}

// untouched says that no syncer has a reason to write to a replica just now.
func (m *machine) untouched(rt *rapid.T, g *group, p place) bool {
	c := m.clusters[p.cluster]
	if c.away {
		return true
	}
	if c.state == "paused" || g.paused || m.replicaDiffers(rt, g, p) != "" {
		return false
	}
	f, err := m.up()[0].Federation(m.l.ctx, g.uid)
	return err == nil && slices.ContainsFunc(f.Replicas, func(r v1.Replica) bool {
		return r.ClusterID == p.cluster && r.Status.Phase == "ready" && r.Status.ObservedGeneration == g.generation
	})
}

// byHand sends a request to an OSCAR behind the federation's back.
func (m *machine) byHand(rt *rapid.T, method string, p place, body string) {
	url := strings.TrimSuffix(m.w.Cluster(p.cluster).URL+"/system/services/"+p.service, "/")
	req, err := http.NewRequestWithContext(m.l.ctx, method, url, strings.NewReader(body))
	if err != nil {
		rt.Fatal(err)
	}
	req.SetBasicAuth(world.User, world.Password)
	resp, err := m.w.HTTP().Do(req)
	if err != nil {
		return // the OSCAR has a fault
	}
	defer resp.Body.Close()
	rt.Logf("%s %s by hand: %d", method, p, resp.StatusCode)
}

// unfixable gives a replica that is not repaired any more a push: another change
// by hand is another drift.
func (m *machine) unfixable(rt *rapid.T, api *client.Client, g *group) {
	v, err := api.Federation(m.l.ctx, g.uid)
	if err != nil {
		return
	}
	for _, r := range v.Replicas {
		p := place{r.ClusterID, r.ServiceName}
		if r.Status == nil || r.Status.Reason != "DriftUnfixable" || m.clusters[p.cluster].drifts[p.service] < 3 {
			continue
		}
		rt.Logf("%s was given up after %d changes by hand", p, m.clusters[p.cluster].drifts[p.service])
		m.byHand(rt, http.MethodDelete, p, "")
		delete(m.clusters[p.cluster].objects, g.bucket())
		m.clusters[p.cluster].emptied[g.bucket()] = true
		delete(g.owns, p.cluster)
	}
}
