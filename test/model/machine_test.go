package model_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/apitest"
	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	clocks "github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
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
const limit = 2 * time.Minute

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
	server *httptest.Server
	client *client.Client
}

type pastCreation struct {
	key, body string
	code      string
	at        time.Time
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
		Clusters: clusterNames, Names: append([]string{shared}, groupNames...), Secrets: secretValues,
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
	cp := m.w.StartControlPlane()
	auth, err := identity.NewBasic(world.User, world.Password)
	if err != nil {
		m.l.Fatal(err)
	}
	in := &instance{cp: cp}
	in.server = httptest.NewServer(apitest.Handler(m.l, server.New(server.Config{
		ControlPlane: cp, Authenticator: auth, Logger: m.w.Log.Logger(),
	}).Handler()))
	in.client, err = client.New(client.Config{Endpoint: in.server.URL, User: world.User, Password: world.Password, Tries: 1})
	if err != nil {
		m.l.Fatal(err)
	}
	m.instances[i] = in
	m.l.Cleanup(in.close)
}

func (in *instance) close() {
	in.server.CloseClientConnections()
	in.server.Close()
}

func (m *machine) stopInstance(i int) {
	m.instances[i].close()
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

// leftover says whether a bucket that the service at one of the places would use
// stands there, was not made for it, and is not known to be of the federation that
// it joins: whether it may be used depends on who made it.
func (m *machine) leftover(g *group, places []place) bool {
	return slices.ContainsFunc(places, func(p place) bool {
		b, ok := m.w.Cluster(p.cluster).Sim.Bucket(g.bucket())
		return ok && b.Tags["from_service"] != p.service && !m.owns(g, p.cluster)
	})
}

// owns says whether the bucket on a cluster is the federation's: what was left there
// is remembered for 90 days.
func (m *machine) owns(g *group, cluster string) bool {
	at, ok := g.owns[cluster]
	return ok && g.state == present && m.clock.Now().Sub(at) < 90*24*time.Hour
}

// create asks for a new federation.
func (m *machine) create(rt *rapid.T) {
	g := m.groups[rapid.SampledFrom(groupNames).Draw(rt, "group")]
	coordinator := rapid.SampledFrom(clusterNames).Draw(rt, "coordinator")
	w := m.drawWords(rt, g, coordinator)
	allowed := m.creation(g, coordinator, w)
	wanted := *g
	wanted.coordinator, wanted.words = coordinator, w
	body, key := wanted.submit(w, w.secret), "create-"+strconv.Itoa(m.next())
	res, err := m.api(rt).CreateService(m.l.ctx, parse(rt, body), client.CreateOptions{Async: true, IdempotencyKey: key})
	if expect(rt, fmt.Sprintf("create %s on %s, %s", g.name, short(coordinator), w), err, allowed) != "" {
		return
	}
	if g.state == creating {
		m.ended(g) // the one under way had failed
	}
	*g = group{
		name: g.name, state: creating, coordinator: coordinator, uid: res.Replicas.UID, words: w, key: key, body: body,
		excuses: m.obstacles(wanted.places(w), true),
	}
	g.leftover = m.leftover(&wanted, wanted.places(w))
	if !g.unwell && rapid.IntRange(0, 3).Draw(rt, "wait for the outcome") > 0 {
		m.outcome(rt, g)
	}
}

// outcome asks for the answer of a creation, which is the same request again.
func (m *machine) outcome(rt *rapid.T, g *group) {
	code, err := m.repeat(rt, g.key, g.body)
	expect(rt, "outcome of create "+g.name, err, g.ends())
	m.remember(g.key, g.body, code)
	if code == "" {
		m.created(g)
		m.store(rt, g)
	} else {
		m.ended(g)
	}
}

// repeat sends a creation again, to an instance, until it has an outcome.
func (m *machine) repeat(rt *rapid.T, key, body string) (string, error) {
	ctx, cancel := context.WithTimeout(m.l.ctx, limit)
	defer cancel()
	for {
		_, err := m.api(rt).CreateService(ctx, parse(rt, body), client.CreateOptions{IdempotencyKey: key, Wait: limit})
		if e, ok := errors.AsType[*client.Error](err); ok && e.Problem.Phase != "" {
			return e.Code(), err
		}
		if code := codeOf(err); code != unknown || ctx.Err() != nil {
			return code, err
		}
	}
}

func (m *machine) remember(key, body, code string) {
	m.past = append(m.past, pastCreation{key: key, body: body, code: code, at: m.clock.Now()})
}

// again sends a creation whose outcome is known once more: it has the same one,
// whatever became of the federation, and makes nothing.
func (m *machine) again(rt *rapid.T) {
	if len(m.past) == 0 {
		rt.Skip("no creation has had an outcome")
	}
	p := m.past[rapid.IntRange(0, len(m.past)-1).Draw(rt, "past creation")]
	if m.clock.Now().Sub(p.at) > 23*time.Hour {
		rt.Skip("it is forgotten by now")
	}
	_, err := m.repeat(rt, p.key, p.body)
	expect(rt, "again "+p.key, err, codes{p.code})
}

// put replaces a definition: with other words, the same ones, or an empty secret.
func (m *machine) put(rt *rapid.T) {
	g := m.standing(rt)
	next := g.words
	next.version = rapid.IntRange(1, 4).Draw(rt, "version")
	next.topology = rapid.SampledFrom([]string{"mesh", "star", "none"}).Draw(rt, "topology")
	secret := rapid.SampledFrom([]string{"", secretValues[0], secretValues[1]}).Draw(rt, "secret")
	if secret != "" {
		next.secret = secret
	}
	if rapid.IntRange(0, 2).Draw(rt, "other members, too") == 0 {
		next.members = m.drawWords(rt, g, g.coordinator).members
	}
	body := g.submit(next, secret)
	m.alter(rt, g, next, fmt.Sprintf("put %s, %s", g.name, next), func(ctx context.Context, api *client.Client, opts client.ChangeOptions) error {
		_, err := api.ChangeService(ctx, parse(rt, body), opts)
		return err
	})
}

// members adds, removes or replaces members.
func (m *machine) members(rt *rapid.T) {
	g := m.standing(rt)
	next := g.words
	next.members = slices.Clone(g.words.members)
	id := rapid.SampledFrom(clusterNames).Draw(rt, "cluster")
	if id == g.coordinator {
		rt.Skip("the coordinator stays")
	}
	at := slices.IndexFunc(next.members, func(p place) bool { return p.cluster == id })
	wanted := m.drawMember(rt, g, id)
	switch {
	case at < 0:
		next.members = append(next.members, wanted)
		m.alter(rt, g, next, fmt.Sprintf("add %s to %s", wanted, g.name), func(ctx context.Context, api *client.Client, opts client.ChangeOptions) error {
			opts.ClusterID = g.coordinator
			_, err := api.AddReplicas(ctx, g.name, []oscar.Member{member(wanted)}, opts)
			return err
		})
	case rapid.Bool().Draw(rt, "remove"):
		gone := next.members[at]
		next.members = slices.Delete(next.members, at, at+1)
		byService := rapid.Bool().Draw(rt, "by deleting the service")
		m.alter(rt, g, next, fmt.Sprintf("remove %s from %s", gone, g.name), func(ctx context.Context, api *client.Client, opts client.ChangeOptions) error {
			if byService && opts.IfMatch == 0 {
				_, err := api.DeleteService(ctx, gone.service, client.DeleteOptions{ClusterID: gone.cluster})
				return err
			}
			opts.ClusterID = g.coordinator
			_, err := api.RemoveReplicas(ctx, g.name, []oscar.Member{member(gone)}, opts)
			return err
		})
		if g.change == nil && !slices.Contains(g.words.members, gone) {
			m.notFound(rt, gone)
		}
	default:
		old := next.members[at]
		next.members[at] = wanted
		m.alter(rt, g, next, fmt.Sprintf("replace %s by %s in %s", old, wanted, g.name), func(ctx context.Context, api *client.Client, opts client.ChangeOptions) error {
			opts.ClusterID = g.coordinator
			_, err := api.ReplaceReplicas(ctx, g.name, []client.Replacement{{From: member(old), To: member(wanted)}}, opts)
			return err
		})
	}
}

func member(p place) oscar.Member {
	return oscar.Member{Type: "oscar", ClusterID: p.cluster, ServiceName: p.service}
}

// notFound: a replica that was removed is not there any more, at once and for
// every instance.
func (m *machine) notFound(rt *rapid.T, p place) {
	if g, _ := m.holder(p); g != nil {
		return
	}
	for _, api := range m.up() {
		_, err := api.Service(m.l.ctx, p.service, p.cluster)
		expect(rt, "get "+p.String(), err, codes{"not_found"})
	}
}

// rollback goes back to an older generation, with the secrets of today.
func (m *machine) rollback(rt *rapid.T) {
	g := m.standing(rt)
	to := rapid.Int64Range(max(1, g.generation-9), g.generation).Draw(rt, "generation")
	next := g.history[to]
	next.secret = g.words.secret
	m.alter(rt, g, next, fmt.Sprintf("rollback of %s to %d", g.name, to), func(ctx context.Context, api *client.Client, opts client.ChangeOptions) error {
		opts.ClusterID = g.coordinator
		_, err := api.Rollback(ctx, g.name, to, opts)
		return err
	})
}

// standing is a federation that can be changed now.
func (m *machine) standing(rt *rapid.T) *group {
	list := slices.DeleteFunc(m.in(present), func(g *group) bool { return g.change != nil })
	if len(list) == 0 {
		rt.Skip("there is no federation to change")
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(rt, "federation")]
}

// alter changes a federation to the next words. A change whose votes may not come
// is left under way.
func (m *machine) alter(rt *rapid.T, g *group, next words, what string, send func(context.Context, *client.Client, client.ChangeOptions) error) {
	api, opts := m.api(rt), client.ChangeOptions{Async: true}
	if rapid.IntRange(0, 9).Draw(rt, "with an old If-Match") == 0 {
		opts.IfMatch = 1
		if next.equal(g.words) || strings.HasPrefix(what, "remove") {
			rt.Skip("it would be no change, or one that knows no If-Match")
		}
		expect(rt, what+" if it is as it never was", send(m.l.ctx, api, opts), codes{"conflict"})
		return
	}
	var added []place
	for _, p := range next.members {
		if !slices.Contains(g.words.members, p) {
			added = append(added, p)
		}
	}
	hosted := func(cluster string) bool {
		return slices.ContainsFunc(g.places(g.words), func(p place) bool { return p.cluster == cluster })
	}
	allowed := m.free(added, hosted)
	e := m.obstacles(added, false)
	e.leftover = m.leftover(g, added)
	if len(added) == 0 || !e.unwell || !allowed.has("") {
		if allowed.has("") {
			allowed = append(slices.DeleteFunc(allowed, func(code string) bool { return code == "" }), e.ends()...)
		}
		if code := expect(rt, what, send(m.l.ctx, api, opts), allowed); code == "" {
			m.took(rt, g, next)
		}
		return
	}
	rt.Logf("%s is under way", what)
	g.change = &change{next: next, excuses: e, done: make(chan string, 1)}
	done := g.change.done
	go func() {
		ctx, cancel := context.WithTimeout(m.l.ctx, limit)
		defer cancel()
		done <- codeOf(send(ctx, api, opts))
	}()
	m.eventually(rt, what+" has begun, or is over", func() string {
		f := m.stored(rt, g)
		if f.Change == nil && f.Generation == g.generation && len(done) == 0 {
			return "nothing of it is to be seen"
		}
		return ""
	})
}

// stored is a federation's record: phase changing does not tell a change that waits
// for votes from one that is being applied.
func (m *machine) stored(rt *rapid.T, g *group) *record.Federation {
	kv, err := m.w.Store.Get(m.l.ctx, record.FederationKey(g.uid))
	if err != nil {
		rt.Fatalf("the record of %s: %v", g.name, err)
	}
	f, err := store.Decode[record.Federation](kv)
	if err != nil {
		rt.Fatal(err)
	}
	return f
}

// took enters a change. One to the words that stand already is none.
func (m *machine) took(rt *rapid.T, g *group, next words) {
	if !next.equal(g.words) {
		m.changed(g, next)
	}
	if got := m.stored(rt, g).Generation; got != g.generation {
		rt.Fatalf("%s is at generation %d after a change to %s; want %d", g.name, got, next, g.generation)
	}
}

// remove deletes a federation, also one that is being created or changed.
func (m *machine) remove(rt *rapid.T) {
	g := m.groups[rapid.SampledFrom(groupNames).Draw(rt, "group")]
	if g.state == absent {
		if g.coordinator == "" {
			rt.Skip("it never was")
		}
		m.notFound(rt, g.at())
		return
	}
	allowed := codes{""}
	if g.state == creating && g.any() {
		allowed = codes{"", "not_found"}
	}
	_, err := m.api(rt).DeleteService(m.l.ctx, g.name, client.DeleteOptions{ClusterID: g.coordinator})
	expect(rt, "delete "+g.name, err, allowed)
	places := g.places(g.words)
	m.ended(g)
	for _, p := range places {
		m.notFoundOrResult(rt, p)
	}
}

// notFoundOrResult: nothing is at the place but, perhaps, what became of a creation.
func (m *machine) notFoundOrResult(rt *rapid.T, p place) {
	if g, _ := m.holder(p); g != nil {
		return
	}
	v, err := m.api(rt).Replicas(m.l.ctx, p.service, p.cluster)
	if err == nil && slices.Contains([]string{"aborted", "rolled_back", "rolling_back"}, v.Phase) {
		return
	}
	expect(rt, "get "+p.String(), err, codes{"not_found"})
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
