package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/client"
)

type pastCreation struct {
	key, body string
	code      string
	at        time.Time
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
