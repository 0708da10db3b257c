package model_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	clocks "github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// Names and clusters are few, so that operations meet.
var (
	groupNames   = []string{"alpha", "beta", "gamma"}
	clusterNames = []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"}
	secretValues = []string{"model-secret-one", "model-secret-two", "model-secret-of-hand"}
)

// shared is the service name that several federations like to use.
const shared = "shared"

// limit ends a wait that never ends otherwise. It is no measure of anything.
const limit = await.Limit

// machine is a real federation and the model of it.
type machine struct {
	*model
	l     *life
	w     *world.World
	clock world.Clock
	// instances are the two control planes; one of them may be down.
	instances [2]*instance
	// past are creations whose outcome is known, with what was answered.
	past []pastCreation
	// serial makes keys and contents distinct.
	serial int
	tokens map[place]string
}

// instance is a control plane with its API.
type instance struct {
	cp     *controlplane.ControlPlane
	client *client.Client
}

// Each process has a wrong clock of its own.
var (
	instancesAhead = []time.Duration{25 * time.Hour, -7 * time.Hour}
	syncersAhead   = map[string]time.Duration{"oscar-cluster-a": -26 * time.Hour, "oscar-cluster-b": 3 * time.Hour, "oscar-cluster-c": 400 * 24 * time.Hour}
)

func newMachine(l *life) *machine {
	m := &machine{l: l, model: newModel(groupNames, clusterNames), tokens: map[place]string{}}
	started := 0
	m.w = world.New(l, world.Options{
		Wire: wire.New(1), Clusters: clusterNames, Names: append([]string{shared}, groupNames...), Secrets: secretValues,
		ControlPlane: func(c *controlplane.Config) {
			ahead := instancesAhead[started%len(instancesAhead)]
			started++
			c.Now = func() time.Time { return m.clock.Now().Add(ahead) }
			// Only a moved clock ends these.
			c.PrepareDeadline, c.ApplyGrace = 10*time.Minute, 10*time.Minute
			c.SweepInterval = 500 * time.Millisecond
		},
		Syncer: func(c *syncer.Config) {
			c.WriteTimeout, c.SessionTTL = 3*time.Second, 10*time.Second
			// Each wait looks at everything: they are short.
			c.Resync, c.LateWindow, c.RetryPause = 300*time.Millisecond, 2*time.Second, 50*time.Millisecond
			c.Now = clocks.Ahead(syncersAhead[c.ClusterID])
		},
	})
	m.w.StopControlPlane(m.w.CP)
	for i := range m.instances {
		m.startInstance(i)
	}
	return m
}

func (m *machine) startInstance(i int) {
	cp := m.w.StartControlPlane(fmt.Sprintf("control-plane-%d", i))
	m.instances[i] = &instance{cp: cp, client: world.Must(client.New(client.Config{
		Endpoint: m.w.Serve(cp), User: world.User, Password: world.Password, Tries: 1, Transport: m.w.HTTP().Transport,
	}))(m.l)}
}

func (m *machine) stopInstance(i int) {
	m.w.StopControlPlane(m.instances[i].cp)
	m.instances[i] = nil
}

// api is one of the instances that are up.
func (m *machine) api(rt *rapid.T) *client.Client {
	up := m.up()
	return up[rapid.IntRange(0, len(up)-1).Draw(rt, "instance")]
}

func (m *machine) up() []*client.Client {
	var out []*client.Client
	for _, in := range m.instances {
		if in != nil {
			out = append(out, in.client)
		}
	}
	return out
}

func (m *machine) next() int {
	m.serial++
	return m.serial
}

func codeOf(err error) string {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return ""
	case !ok || e.Problem.Status == 0 || e.Code() == "unavailable" && e.Problem.Phase == "":
		return unknown // no answer, or not one of an outcome
	}
	return e.Code()
}

func parse(rt *rapid.T, body string) *oscar.Service {
	s, violations := oscar.ParseService([]byte(body))
	if len(violations) > 0 {
		rt.Fatalf("the model submits what is not valid: %v", violations)
	}
	return s
}

// expect ends the run when an answer is not among those that the model allows.
func expect(rt *rapid.T, what string, err error, allowed codes) string {
	got := codeOf(err)
	rt.Logf("%s -> %q", what, got)
	if !allowed.has(got) {
		rt.Fatalf("%s was answered %q; the model allows %q: %v", what, got, allowed, err)
	}
	return got
}

// drawWords draws a definition for a coordinator on a cluster.
func (m *machine) drawWords(rt *rapid.T, g *group, coordinator string) words {
	w := words{
		version:  rapid.IntRange(1, 4).Draw(rt, "version"),
		secret:   rapid.SampledFrom(secretValues[:2]).Draw(rt, "secret"),
		topology: rapid.SampledFrom([]string{"mesh", "star", "none"}).Draw(rt, "topology"),
	}
	for _, id := range clusterNames {
		if id != coordinator && rapid.IntRange(0, 3).Draw(rt, "member on "+short(id)) > 0 {
			w.members = append(w.members, m.drawMember(rt, g, id))
		}
	}
	return w
}

func (m *machine) drawMember(rt *rapid.T, g *group, cluster string) place {
	if rapid.IntRange(0, 3).Draw(rt, "shared name") == 0 {
		return place{cluster, shared}
	}
	return place{cluster, g.name}
}

// pauseFederation stops or resumes what is done for a federation.
func (m *machine) pauseFederation(rt *rapid.T) {
	g := m.standing(rt)
	_, err := m.api(rt).Pause(m.l.ctx, g.name, g.coordinator, !g.paused)
	expect(rt, fmt.Sprintf("pause %s: %v", g.name, !g.paused), err, codes{""})
	g.paused = !g.paused
}

// view is a federation as one of its replicas sees it.
func (m *machine) view(rt *rapid.T) {
	g := m.standing(rt)
	p := rapid.SampledFrom(g.places(g.words)).Draw(rt, "replica")
	v, err := m.api(rt).Replicas(m.l.ctx, p.service, p.cluster)
	expect(rt, "view of "+p.String(), err, codes{""})
	if want := g.sees(g.words, p); v.Generation != g.generation || v.UID != g.uid || !slices.Equal(placesOf(v.Replicas), want) {
		rt.Fatalf("%s sees generation %d of %s with %v, want %d of %s with %v", p, v.Generation, v.UID, placesOf(v.Replicas), g.generation, g.uid, want)
	}
	s, err := m.api(rt).Service(m.l.ctx, p.service, p.cluster)
	expect(rt, "get "+p.String(), err, codes{""})
	if s.Memory != g.words.memory() || s.Script != g.words.script() || s.Environment.Secrets["KEY"] != "" {
		rt.Fatalf("%s is shown with memory %s, script %q and secrets %v; want %s", p, s.Memory, s.Script, s.Environment.Secrets, g.words)
	}
}

func placesOf(replicas []v1.Replica) []place {
	var out []place
	for _, r := range replicas {
		out = append(out, place{r.ClusterID, r.ServiceName})
	}
	return out
}
