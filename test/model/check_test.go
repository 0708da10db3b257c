package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

// check holds what an instance shows against the model, after every step: which
// federations exist, with which members and generation. What was under way, and is
// over, is entered.
func (m *machine) check(rt *rapid.T) {
	if told := m.l.told(); told != "" {
		rt.Fatalf("%s", told)
	}
	list, err := m.api(rt).Federations(m.l.ctx)
	if err != nil {
		rt.Fatalf("federations: %v", err)
	}
	byUID := map[string]*v1.Federation{}
	for i := range list {
		byUID[list[i].UID] = &list[i]
	}
	for _, name := range groupNames {
		g := m.groups[name]
		switch g.state {
		case creating:
			m.checkCreating(rt, g, byUID[g.uid])
		case present:
			m.checkPresent(rt, g, byUID[g.uid])
		case absent:
		}
	}
	for _, f := range list {
		g := m.groups[f.GroupID]
		lives := slices.Contains([]string{"preparing", "applying", "ready", "degraded", "changing"}, f.Phase)
		if lives && (g == nil || g.uid != f.UID || g.state == absent) {
			rt.Fatalf("federation %s (%s) is %s; the model knows of none", f.GroupID, f.UID, f.Phase)
		}
	}
}

func (m *machine) checkCreating(rt *rapid.T, g *group, f *v1.Federation) {
	switch {
	case f == nil, slices.Contains([]string{"aborted", "rolled_back", "rolling_back"}, f.Phase):
		if !g.any() {
			rt.Fatalf("the creation of %s failed, and nothing was in its way: %+v", g.name, f)
		}
		if f != nil && f.Phase == "rolling_back" {
			return // its outcome is not there yet
		}
		rt.Logf("the creation of %s has failed", g.name)
		m.ended(g)
	case slices.Contains([]string{"ready", "degraded", "changing"}, f.Phase):
		if g.blocked {
			rt.Fatalf("%s was created over somebody else's service", g.name)
		}
		rt.Logf("%s is created", g.name)
		m.created(g)
		m.remember(g.key, g.body, "")
		m.checkPresent(rt, g, f)
	}
}

func (m *machine) checkPresent(rt *rapid.T, g *group, f *v1.Federation) {
	if f == nil || !slices.Contains([]string{"ready", "degraded", "changing"}, f.Phase) {
		rt.Fatalf("%s is to be there, and is shown as %+v", g.name, f)
	}
	if g.change != nil {
		m.checkChange(rt, g, f)
	}
	if f.Generation != g.generation || !slices.Equal(placesOf(f.Replicas), g.places(g.words)) || f.Topology != g.words.topology || f.Paused != g.paused {
		rt.Fatalf("%s is shown with generation %d, %s, %v, paused %v; want %d, %s, paused %v",
			g.name, f.Generation, f.Topology, placesOf(f.Replicas), f.Paused, g.generation, g.words, g.paused)
	}
}

// checkChange enters the end of a change that was under way.
func (m *machine) checkChange(rt *rapid.T, g *group, f *v1.Federation) {
	c := g.change
	if f.Generation == g.generation+1 {
		rt.Logf("the change of %s is made", g.name)
		m.changed(g, c.next)
		return
	}
	select {
	case code := <-c.done:
		rt.Logf("the change of %s was answered %q", g.name, code)
		switch {
		case code == unknown:
			// Its instance went. The federation shows what becomes of it.
			c.done <- code
			if now := m.stored(rt, g); now.Change == nil && now.Generation == g.generation {
				g.change = nil
			}
		case code == "":
			// The list was older than the answer.
			m.changed(g, c.next)
			m.check(rt)
		case !c.ends().has(code):
			rt.Fatalf("the change of %s was answered %q", g.name, code)
		default:
			g.change = nil
		}
	default:
	}
}

// settle puts everything in order, waits until all is quiet, and compares what
// stands on every OSCAR with the model.
func (m *machine) settle(rt *rapid.T) {
	rt.Logf("everything is put in order")
	for i, in := range m.instances {
		if in == nil {
			m.startInstance(i)
		}
	}
	for _, id := range clusterNames {
		c := m.clusters[id]
		m.w.Cluster(id).Sim.ClearFaults()
		m.w.Cluster(id).Sim.Settle()
		c.faulty = false
		if c.away {
			m.back(rt, c)
		}
		if c.state != "active" {
			m.setState(rt, c, "active")
		}
	}
	for _, g := range m.in(present) {
		if g.paused {
			_, err := m.up()[0].Pause(m.l.ctx, g.name, g.coordinator, false)
			expect(rt, "resume "+g.name, err, codes{""})
			g.paused = false
		}
	}
	m.eventually(rt, "nothing is under way", func() string {
		m.check(rt)
		for _, g := range m.groups {
			if g.state == creating || g.change != nil {
				return g.name
			}
		}
		return ""
	})
	for _, g := range m.in(present) {
		m.eventually(rt, g.name+" is as desired", func() string { return m.unready(rt, g) })
	}
	m.eventually(rt, "the store and every OSCAR hold what the model says and nothing else", func() string { return m.differs(rt) })
	clear(m.doubt)
	for _, g := range m.groups {
		g.nameInDoubt = false
		if g.state == present {
			for _, p := range g.places(g.words) {
				if _, stands := m.w.Cluster(p.cluster).Sim.Bucket(g.bucket()); stands {
					g.owns[p.cluster] = m.clock.Now()
				}
			}
		}
	}
	for _, c := range m.clusters {
		clear(c.drifts)
	}
}

// eventually waits until nothing is wrong any more.
func (m *machine) eventually(rt *rapid.T, what string, wrong func() string) {
	over := time.After(limit)
	for {
		why := wrong()
		if why == "" {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-over:
			rt.Fatalf("it never came true: %s: %s", what, why)
		}
	}
}

// unready says what is missing until every replica has the present generation;
// over somebody else's service it says so.
func (m *machine) unready(rt *rapid.T, g *group) string {
	f, err := m.up()[0].Federation(m.l.ctx, g.uid)
	if err != nil {
		rt.Fatalf("federation %s: %v", g.name, err)
	}
	for _, r := range f.Replicas {
		s, p := r.Status, place{r.ClusterID, r.ServiceName}
		if m.clusters[r.ClusterID].foreign[r.ServiceName] != "" {
			if s.Phase != "held" && s.Phase != "failed" {
				return fmt.Sprintf("%s/%s is %s over a foreign service", r.ClusterID, r.ServiceName, s.Phase)
			}
			continue
		}
		if s.Phase != "ready" || s.ObservedGeneration != g.generation {
			if s.Reason == "DriftUnfixable" {
				m.unfixable(rt, m.up()[0], g)
			}
			return fmt.Sprintf("%s/%s is %s (%s: %s) with generation %d of %d", r.ClusterID, r.ServiceName, s.Phase, s.Reason, s.Message, s.ObservedGeneration, g.generation)
		}
		// Ready is a promise about that generation: nobody has touched it by hand, so
		// it must be there already, and not soon.
		if why := m.replicaDiffers(rt, g, p); why != "" && m.clusters[p.cluster].drifts[p.service] == 0 {
			rt.Fatalf("%s is shown as ready with generation %d: %s", p, g.generation, why)
		}
	}
	return ""
}

// differs says how store or OSCARs differ from the model.
func (m *machine) differs(rt *rapid.T) string {
	for _, id := range clusterNames {
		if why := m.clusterDiffers(rt, m.clusters[id]); why != "" {
			return id + ": " + why
		}
	}
	if n := len(m.w.Keys(record.NamesPrefix)); n != len(m.in(present)) {
		return fmt.Sprintf("%d names for %d federations", n, len(m.in(present)))
	}
	return ""
}

func (m *machine) clusterDiffers(rt *rapid.T, c *cluster) string {
	live := map[string]*group{}
	for _, g := range m.in(present) {
		for _, p := range g.places(g.words) {
			if p.cluster == c.id {
				live[p.service] = g
			}
		}
	}
	if why := sameNames("desired records", serviceKeys(m.w.Keys(record.DesiredServicesPrefix(c.id))), live); why != "" {
		return why
	}
	if why := sameNames("reports", serviceKeys(m.w.Keys(record.ObservedServicesPrefix(c.id))), live); why != "" {
		return why
	}
	if specs := m.w.Keys(record.SpecsPrefix(c.id)); len(specs) != len(live) {
		return fmt.Sprintf("specs %v for %d replicas", specs, len(live))
	}
	stand := map[string]bool{}
	sim := m.w.Cluster(c.id).Sim
	for _, name := range sim.Services() {
		if m.ourName(name) {
			stand[name] = true
		}
	}
	for name, g := range live {
		if c.foreign[name] == "" {
			if why := m.replicaDiffers(rt, g, place{c.id, name}); why != "" {
				return why
			}
		}
		delete(stand, name)
	}
	for name, made := range c.foreign {
		v, ok := sim.Service(name)
		if !ok || string(v.JSON) != made {
			rt.Fatalf("the foreign service %s/%s was touched: %s; it was made as %s", c.id, name, v.JSON, made)
		}
		delete(stand, name)
	}
	if len(stand) > 0 {
		return fmt.Sprintf("services that nobody asked for: %v", slices.Sorted(maps.Keys(stand)))
	}
	for bucket, objects := range c.objects {
		b, ok := sim.Bucket(bucket)
		for _, o := range objects {
			if !ok || !slices.Contains(b.Objects, o) {
				rt.Fatalf("object %s of bucket %s on %s is lost; the bucket has %v", o, bucket, c.id, b.Objects)
			}
		}
	}
	return ""
}

func (m *machine) ourName(name string) bool {
	return name == shared || slices.Contains(groupNames, name)
}

func serviceKeys(keys []string) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k[strings.LastIndexByte(k, '/')+1:])
	}
	return out
}

func sameNames(what string, got []string, live map[string]*group) string {
	want := slices.Sorted(maps.Keys(live))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Sprintf("%s of %v, want %v", what, got, want)
	}
	return ""
}

// replicaDiffers says how a replica is not what the model says.
func (m *machine) replicaDiffers(rt *rapid.T, g *group, p place) string {
	sim := m.w.Cluster(p.cluster).Sim
	v, ok := sim.Service(p.service)
	if !ok {
		return p.String() + " does not stand"
	}
	var doc struct {
		Memory      string
		Script      string
		Environment struct{ Variables map[string]string }
		Input       []struct{ Path string }
	}
	if err := json.Unmarshal(v.JSON, &doc); err != nil {
		rt.Fatal(err)
	}
	switch {
	case doc.Memory != g.words.memory() || doc.Script != g.words.script() || doc.Environment.Variables["VERSION"] != fmt.Sprint(g.words.version):
		return fmt.Sprintf("%s has memory %s, script %q, variables %v; want %s", p, doc.Memory, doc.Script, doc.Environment.Variables, g.words)
	case len(doc.Input) != 1 || doc.Input[0].Path != g.bucket()+"/in":
		return fmt.Sprintf("%s has input %v", p, doc.Input)
	case v.Secrets["KEY"] != g.words.secret:
		return fmt.Sprintf("%s has secret %q, want %q", p, v.Secrets["KEY"], g.words.secret)
	case v.Annotations["oscarfed/generation"] != fmt.Sprint(g.generation):
		return fmt.Sprintf("%s has generation %s, want %d", p, v.Annotations["oscarfed/generation"], g.generation)
	case len(v.Token) != 64:
		return fmt.Sprintf("%s has token %q", p, v.Token)
	}
	if _, ok := sim.Bucket(g.bucket()); !ok && p == g.at() && !m.clusters[p.cluster].emptied[g.bucket()] {
		return fmt.Sprintf("the bucket %s of %s is not there", g.bucket(), p)
	}
	return ""
}
