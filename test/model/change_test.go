package model_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// put replaces a definition: with other words, the same ones, an empty secret, or without what stays as it is.
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
	what := "put"
	noSecrets := secret == "" && rapid.Bool().Draw(rt, "without secrets")
	noFederation := rapid.IntRange(0, 2).Draw(rt, "without the federation") == 0
	if noFederation {
		next.topology, next.members, what = g.words.topology, slices.Clone(g.words.members), "put without its federation"
	}
	body := g.submit(next, secret)
	m.alter(rt, g, next, fmt.Sprintf("%s %s, %s", what, g.name, next), func(ctx context.Context, api *client.Client, opts client.ChangeOptions) error {
		s := parse(rt, body)
		if noSecrets {
			s.Environment.Secrets = nil
		}
		if noFederation {
			s.Federation = nil
		}
		_, err := api.ChangeService(ctx, s, opts)
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
	allowed := m.free(added)
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
