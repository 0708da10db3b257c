package linear

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// createWait is how long a creation waits for its outcome before it is unknown.
const createWait = 6 * time.Second

// thinks is the longest pause of a client between two operations: without any, a
// history would be over before anything could break.
const thinks = 400 * time.Millisecond

// attempts at most for a creation with an Idempotency-Key.
const attempts = 4

// service is one name that clients meet at, with the places of its federation.
type service struct {
	name  string
	words []string // cluster ids, by place
}

func (s service) nameAt(i int) string {
	if i == 0 {
		return s.name
	}
	return s.name + "-" + string(rune('a'+i))
}

// members lists places as members.
func (s service) members(p Places) []oscar.Member {
	var out []oscar.Member
	for i := 1; i < len(s.words); i++ {
		if p&(1<<i) != 0 {
			out = append(out, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: s.words[i], ServiceName: s.nameAt(i)})
		}
	}
	return out
}

// placeOf is the bit of a replica; 0 for one that is not ours.
func (s service) placeOf(cluster, name string) Places {
	for i, id := range s.words {
		if id == cluster && s.nameAt(i) == name {
			return 1 << i
		}
	}
	return 0
}

const scriptLine = "#!/bin/sh\n# version "

// definition is version id of the service. Group ids differ, so that two creations
// that meet at a place do not always meet at the name.
func (s service) definition(id int, p Places, group string) (*oscar.Service, error) {
	doc, err := json.Marshal(map[string]any{
		"name": s.name, "cluster_id": s.words[0], "image": "ghcr.io/grycap/imagemagick",
		"script":     scriptLine + strconv.Itoa(id) + "\n",
		"federation": map[string]any{"topology": "mesh", "group_id": group, "members": s.members(p)},
	})
	if err != nil {
		return nil, err
	}
	out, violations := oscar.ParseService(doc)
	if len(violations) > 0 {
		return nil, fmt.Errorf("the definition is not valid: %v", violations)
	}
	return out, nil
}

// Ask is what a client asks for, before it is known what the client knows then.
type Ask struct {
	Kind Kind
	// Service is a number of those of the history.
	Service int
	// Places that are wanted, added or removed, or the one that is asked.
	Places Places `json:"places,omitempty"`
	// Bound binds a change to the revision that the client has seen last.
	Bound bool `json:"bound,omitempty"`
	// Keyed sends a creation under an Idempotency-Key, and again while its outcome is
	// unknown; Again is how often it is sent once more though it was answered.
	Keyed bool `json:"keyed,omitempty"`
	Again int  `json:"again,omitempty"`
	// Other is another group id than usual.
	Other bool `json:"other,omitempty"`
}

// Draw chooses an operation on one of n services with so many places each.
func Draw(rng *rand.Rand, services, places int) Ask {
	a := Ask{Service: rng.IntN(services)}
	some := Places(rng.UintN(256)) & (Places(1)<<places - 2)
	switch r := rng.IntN(100); {
	case r < 22:
		a.Kind, a.Places, a.Other, a.Keyed = Create, some, rng.IntN(3) == 0, rng.IntN(3) > 0
		for a.Keyed && a.Again < attempts-1 && rng.IntN(6) == 0 {
			a.Again++
		}
	case r < 29:
		a.Kind = Delete
	case r < 70:
		a.Kind = Remove
		if r < 44 {
			a.Kind = Change
		} else if r < 58 {
			a.Kind = Add
		}
		a.Places, a.Bound = some, rng.IntN(2) == 0
		if a.Kind != Change && a.Places == 0 {
			a.Places = 2
		}
	case r < 88:
		a.Kind, a.Places = Get, coordinator
	case r < 92:
		a.Kind, a.Places = Get, 1<<(1+rng.IntN(places-1))
	default:
		a.Kind = GetService
	}
	return a
}

// Caller is one client of a history. It knows what it was told and nothing else.
type Caller struct {
	number   int
	api      func() *client.Client
	history  *History
	services []service
	// known is the revision of each service that the caller has seen last.
	known map[string]int64
}

// Caller is another client of the history. api gives what it reaches the API by, for each request.
func (h *History) Caller(number int, api func() *client.Client) *Caller {
	return &Caller{number: number, history: h, services: h.services, api: api, known: map[string]int64{}}
}

// run makes n operations.
func (c *Caller) run(ctx context.Context, rng *rand.Rand, n int) {
	for range n {
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(thinks)))):
		case <-ctx.Done():
			return
		}
		c.Do(ctx, Draw(rng, len(c.services), len(c.services[0].words)))
	}
}

// Do makes one operation, and records what the caller was told.
func (c *Caller) Do(ctx context.Context, a Ask) {
	s := c.services[a.Service]
	switch a.Kind {
	case Create:
		c.create(ctx, s, a)
	case Delete:
		c.delete(ctx, s)
	case Change, Add, Remove:
		c.change(ctx, s, a)
	case Get:
		c.get(ctx, s, a.Places)
	case GetService:
		c.getService(ctx, s)
	}
}

// ReadAndDelete reads every service some times, deletes it and looks for it once more: what a
// history at rest is judged by.
func (c *Caller) ReadAndDelete(ctx context.Context, times int) {
	for _, s := range c.services {
		for range times {
			c.get(ctx, s, coordinator)
			c.getService(ctx, s)
		}
		c.delete(ctx, s)
		c.get(ctx, s, coordinator)
	}
}

func (c *Caller) create(ctx context.Context, s service, a Ask) {
	in := Input{Kind: Create, ID: c.history.nextID(), Places: a.Places, Keyed: a.Keyed}
	group := s.name
	if a.Other {
		group += "-other"
	}
	def, err := s.definition(in.ID, in.Places, group)
	if err != nil {
		c.history.record(c.number, s.name, in, Output{Answer: Strange, Text: err.Error()}, c.history.now(), nil)
		return
	}
	opts := client.CreateOptions{Wait: createWait}
	if in.Keyed {
		opts.IdempotencyKey = fmt.Sprintf("%d/%s/%d", c.history.Seed, s.name, in.ID)
	}
	again := a.Again
	for range attempts {
		call := c.history.now()
		res, err := c.api().CreateService(ctx, def, opts)
		out := answerOf(in, err)
		var view *View
		if res != nil && res.Replicas != nil && !res.Replayed {
			view = c.look(s, res.Replicas, &out)
		}
		c.history.record(c.number, s.name, in, out, call, view)
		// A client without an answer asks again under the same key; now and then one
		// with an answer does, too.
		if !in.Keyed {
			return
		}
		if out.Answer != Unknown && out.Answer != Nothing {
			if again--; again < 0 {
				return
			}
		}
	}
}

func (c *Caller) delete(ctx context.Context, s service) {
	in := Input{Kind: Delete, ID: c.history.nextID()}
	call := c.history.now()
	_, err := c.api().DeleteService(ctx, s.name, client.DeleteOptions{})
	c.history.record(c.number, s.name, in, answerOf(in, err), call, nil)
}

func (c *Caller) change(ctx context.Context, s service, a Ask) {
	in := Input{Kind: a.Kind, ID: c.history.nextID(), Places: a.Places}
	if a.Bound {
		in.IfMatch = c.known[s.name]
	}
	opts := client.ChangeOptions{IfMatch: in.IfMatch, Async: true}
	call := c.history.now()
	var res *v1.Replicas
	var err error
	switch in.Kind {
	case Change:
		var def *oscar.Service
		// The group_id of a federation cannot be changed: it is left out, and stays.
		if def, err = s.definition(in.ID, in.Places, ""); err == nil {
			res, err = c.api().ChangeService(ctx, def, opts)
		}
	case Add:
		res, err = c.api().AddReplicas(ctx, s.name, s.members(in.Places), opts)
	default:
		res, err = c.api().RemoveReplicas(ctx, s.name, s.members(in.Places), opts)
	}
	out := answerOf(in, err)
	var view *View
	if res != nil {
		view = c.look(s, res, &out)
	}
	c.history.record(c.number, s.name, in, out, call, view)
}

func (c *Caller) get(ctx context.Context, s service, at Places) {
	in := Input{Kind: Get, ID: c.history.nextID(), Places: at}
	i := 0
	for ; at>>i != 1; i++ {
	}
	call := c.history.now()
	res, err := c.api().Replicas(ctx, s.nameAt(i), "")
	out := answerOf(in, err)
	if res != nil {
		if view := c.look(s, res, &out); view != nil {
			out.View = *view
		}
	}
	c.history.record(c.number, s.name, in, out, call, nil)
}

func (c *Caller) getService(ctx context.Context, s service) {
	in := Input{Kind: GetService, ID: c.history.nextID()}
	call := c.history.now()
	res, err := c.api().Service(ctx, s.name, "")
	out := answerOf(in, err)
	if res != nil {
		out.View.Members = coordinator
		if res.Federation != nil {
			for _, m := range res.Federation.Members {
				out.View.Members |= s.placeOf(m.ClusterID, m.ServiceName)
			}
		}
		id, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(res.Script, scriptLine)))
		if err != nil {
			out = Output{Answer: Strange, Text: "script " + res.Script}
		}
		out.View.Definition = id
	}
	c.history.record(c.number, s.name, in, out, call, nil)
}

// look reads a view, and remembers its revision. One with a stranger in it makes
// the answer a strange one.
func (c *Caller) look(s service, r *v1.Replicas, out *Output) *View {
	v := &View{UID: r.UID, Phase: r.Phase, Generation: r.Generation, Revision: r.Revision}
	for _, m := range append([]v1.Replica{r.Self}, r.Replicas...) {
		p := s.placeOf(m.ClusterID, m.ServiceName)
		if p == 0 || v.Members.has(p) {
			*out = Output{Answer: Strange, Text: "the view lists " + m.ClusterID + "/" + m.ServiceName}
			return nil
		}
		v.Members |= p
	}
	if r.Phase != "aborted" && r.Phase != "rolled_back" {
		c.known[s.name] = r.Revision
	}
	return v
}

// answerOf says what a client was told.
func answerOf(in Input, err error) Output {
	var e *client.Error
	switch {
	case err == nil:
		return Output{Answer: OK}
	case !errors.As(err, &e):
		return Output{Answer: Unknown, Text: err.Error()}
	}
	out := Output{Text: fmt.Sprintf("%d %s: %s", e.Problem.Status, e.Problem.Code, e.Problem.Detail)}
	reads := in.Kind == Get || in.Kind == GetService
	switch e.Problem.Phase {
	case "aborted":
		out.Answer = Aborted
		return out
	case "rolling_back", "rolled_back":
		out.Answer = RolledBack
		return out
	}
	switch e.Code() {
	case v1.CodeUnknownOutcome:
		out.Answer = Unknown
	case v1.CodeUnavailable:
		out.Answer = Nothing
	case v1.CodeNotFound:
		out.Answer = NotFound
		if in.Kind == Create {
			out.Answer = Gone
		}
	case v1.CodeAlreadyExists:
		out.Answer = Exists
	case v1.CodeConflict:
		out.Answer = Conflict
		if strings.Contains(e.Problem.Detail, "deleted meanwhile") {
			out.Answer = Gone
		}
	default:
		out.Answer = Strange
	}
	if reads && out.Answer != NotFound && out.Answer != Nothing {
		out.Answer = Strange
	}
	return out
}
