package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The model: what the users of a federation may rely on, in the words of the
// design and without a look at the implementation. It knows nothing of records,
// votes, intents or sessions; only which federations exist, what they say, what is
// in the way, and whether something is out of order just now.

// place is one service on one cluster.
type place struct{ cluster, service string }

func (p place) String() string { return p.cluster + "/" + p.service }

// words are what a definition says.
type words struct {
	version  int // of the script, the memory and a variable
	secret   string
	topology string
	members  []place // without the coordinator, in the order submitted
}

func (w words) equal(o words) bool {
	return w.version == o.version && w.secret == o.secret && w.topology == o.topology && slices.Equal(w.members, o.members)
}

func (w words) String() string {
	return fmt.Sprintf("version %d, secret %s, %s, members %v", w.version, w.secret, w.topology, w.members)
}

// memory and script that a version says.
func (w words) memory() string { return strconv.Itoa(128+w.version) + "Mi" }
func (w words) script() string { return fmt.Sprintf("#!/bin/sh\necho version %d\n", w.version) }

// state of a federation's name.
type state int

const (
	absent state = iota
	creating
	present
)

// group is one name of a federation: group_id, and service name of its coordinator.
type group struct {
	name        string
	state       state
	coordinator string // cluster
	uid         string
	generation  int64
	words       words
	history     map[int64]words
	paused      bool
	excuses            // of the creation, while it is under way
	key, body   string // of the creation's request
	change      *change
	// owns are the clusters where its bucket was found in use by a replica that was
	// as desired, with when that was last.
	owns map[string]time.Time
	// nameInDoubt: a creation was deleted, and may not be rolled back yet. Until
	// then it holds its name.
	nameInDoubt bool
}

// excuses are why something may fail that is under way.
type excuses struct {
	// unwell: something was out of order meanwhile.
	unwell bool
	// blocked: something that is not ours is in its way since before.
	blocked bool
	// leftover: a bucket stands there that was not made for this service, and that the
	// model does not know to be the federation's.
	leftover bool
}

func (e excuses) any() bool { return e.unwell || e.blocked || e.leftover }

// ends are the answers that something under way may have.
func (e excuses) ends() codes {
	var out codes
	if !e.blocked {
		out = append(out, "")
	}
	if e.unwell {
		return append(out, failures()...)
	}
	if e.any() {
		out = append(out, "already_exists")
	}
	return out
}

// failures are how something may end while clusters are out of order.
func failures() codes {
	return codes{"already_exists", "failed_precondition", "replica_failed", "unavailable"}
}

// change is one that waits for the votes of members that it adds.
type change struct {
	next words
	excuses
	// done gets the code of the answer: empty when it was made, unknown when
	// there was none.
	done chan string
}

const unknown = "unknown_outcome"

func (g *group) at() place { return place{g.coordinator, g.name} }

// places are all replicas, the coordinator first.
func (g *group) places(w words) []place { return append([]place{g.at()}, w.members...) }

// bucket of the definition's input and output: its own, so that federations do
// not share any.
func (g *group) bucket() string { return "data-" + g.name + "-" + short(g.coordinator) }

func short(cluster string) string { return strings.TrimPrefix(cluster, "oscar-cluster-") }

// sees are the places that the replica at p lists.
func (g *group) sees(w words, p place) []place {
	all := g.places(w)
	if w.topology == "none" || w.topology == "star" && p != g.at() {
		return nil
	}
	return slices.DeleteFunc(all, func(o place) bool { return o == p })
}

// submit is the definition as a user sends it. An empty secret means unchanged.
func (g *group) submit(w words, secret string) string {
	type object = map[string]any
	members := []object{}
	for _, m := range w.members {
		members = append(members, object{"type": "oscar", "cluster_id": m.cluster, "service_name": m.service})
	}
	io := func(folder string) []object {
		return []object{{"storage_provider": "minio.default", "path": g.bucket() + "/" + folder}}
	}
	doc, err := json.Marshal(object{
		"name": g.name, "cluster_id": g.coordinator, "image": "ghcr.io/grycap/imagemagick",
		"cpu": "0.1", "memory": w.memory(), "script": w.script(),
		"environment": object{
			"variables": object{"VERSION": strconv.Itoa(w.version)}, "secrets": object{"KEY": secret},
		},
		"federation": object{"topology": w.topology, "members": members},
		"input":      io("in"), "output": io("out"),
	})
	if err != nil { // plain data: it cannot
		panic(err)
	}
	return string(doc)
}

// cluster is what the model knows of one.
type cluster struct {
	id     string
	away   bool
	faulty bool
	state  string // active, paused, cordoned
	// foreign are services of somebody else that stand, by name, as they were made.
	foreign map[string]string
	// objects are those that users put into buckets and nobody deleted by hand.
	objects map[string][]string
	// drifts counts the changes by hand of a service since the last comparison.
	drifts map[string]int
	// emptied are buckets that a DELETE by hand took away.
	emptied map[string]bool
}

// model is all of it.
type model struct {
	groups   map[string]*group
	clusters map[string]*cluster
	// doubt holds places where a deletion may not be acknowledged yet.
	doubt map[place]bool
}

func newModel(names, clusters []string) *model {
	m := &model{groups: map[string]*group{}, clusters: map[string]*cluster{}, doubt: map[place]bool{}}
	for _, n := range names {
		m.groups[n] = &group{name: n}
	}
	for _, id := range clusters {
		m.clusters[id] = &cluster{
			id: id, state: "active", foreign: map[string]string{}, objects: map[string][]string{}, drifts: map[string]int{}, emptied: map[string]bool{},
		}
	}
	return m
}

// in lists the groups in a state, by name.
func (m *model) in(s state) []*group {
	var out []*group
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		if m.groups[name].state == s {
			out = append(out, m.groups[name])
		}
	}
	return out
}

// holder is the federation that stands at a place; sure is false when it is
// under way to it, or a deletion there may not be over.
func (m *model) holder(p place) (g *group, sure bool) {
	for _, g := range m.in(present) {
		if slices.Contains(g.places(g.words), p) {
			return g, true
		}
	}
	for _, g := range m.in(creating) {
		if slices.Contains(g.places(g.words), p) {
			return g, false
		}
	}
	for _, g := range m.in(present) {
		if g.change != nil && slices.Contains(g.change.next.members, p) {
			return g, false
		}
	}
	return nil, !m.doubt[p]
}

// codes is a set of answers; the empty one is success.
type codes []string

func (c codes) has(code string) bool { return slices.Contains(c, code) }

// free says how a request for new places is answered before anybody votes. A cordoned cluster
// takes no new replica, of a federation that has one there either.
func (m *model) free(places []place) codes {
	for _, p := range places {
		if m.clusters[p.cluster].state == "cordoned" {
			return codes{"invalid"}
		}
	}
	allowed := codes{""}
	for _, p := range places {
		switch g, sure := m.holder(p); {
		case g != nil && sure:
			return codes{"already_exists"}
		case !sure:
			allowed = codes{"", "already_exists"}
		}
	}
	return allowed
}

// creation says how the request for a new federation is answered before anybody votes.
func (m *model) creation(g *group, coordinator string, w words) codes {
	wanted := *g
	wanted.coordinator = coordinator
	allowed := m.free(wanted.places(w))
	switch {
	case allowed.has("invalid"):
	case g.state == present:
		return codes{"already_exists"}
	case g.state == creating && g.any():
		return append(allowed, "conflict", "already_exists")
	case g.state == creating:
		return codes{"conflict", "already_exists"}
	case g.nameInDoubt:
		return append(allowed, "conflict")
	}
	return allowed
}

// obstacles of new places. A paused cluster votes, but makes nothing.
func (m *model) obstacles(places []place, pausedToo bool) excuses {
	var e excuses
	for _, p := range places {
		c := m.clusters[p.cluster]
		e.unwell = e.unwell || c.away || c.faulty || pausedToo && c.state == "paused"
		e.blocked = e.blocked || c.foreign[p.service] != ""
	}
	return e
}

// disturbed: what is under way on a cluster, or anywhere, may now fail.
func (m *model) disturbed(cluster string) {
	for _, g := range m.groups {
		for _, p := range g.places(g.words) {
			if g.state == creating && (cluster == "" || p.cluster == cluster) {
				g.unwell = true
			}
		}
		if g.change == nil {
			continue
		}
		for _, p := range g.change.next.members {
			if cluster == "" || p.cluster == cluster {
				g.change.unwell = true
			}
		}
	}
}

// created, ended, changed are the steps of a federation.

func (m *model) created(g *group) {
	g.state, g.generation, g.paused, g.change = present, 1, false, nil
	g.history, g.owns = map[int64]words{1: g.words}, map[string]time.Time{}
}

func (m *model) ended(g *group) {
	for _, p := range g.places(g.words) {
		m.doubt[p] = true
	}
	if g.change != nil {
		for _, p := range g.change.next.members {
			m.doubt[p] = true
		}
	}
	g.nameInDoubt = g.state == creating
	g.state, g.change = absent, nil
}

func (m *model) changed(g *group, next words) {
	for _, p := range g.words.members {
		if !slices.Contains(next.members, p) {
			m.doubt[p] = true
		}
	}
	g.generation++
	g.words, g.change = next, nil
	g.history[g.generation] = next
}
