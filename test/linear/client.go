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

// all are the places of members.
func (s service) all() Places { return Places(1)<<len(s.words) - 2 }

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

// caller is one client of a history. It knows what it was told and nothing else.
type caller struct {
	number   int
	rng      *rand.Rand
	api      func() *client.Client
	history  *History
	services []service
	// known is the revision of each service that the caller has seen last.
	known map[string]int64
}

// run makes n operations.
func (c *caller) run(ctx context.Context, n int) {
	for range n {
		select {
		case <-time.After(time.Duration(c.rng.Int64N(int64(thinks)))):
		case <-ctx.Done():
			return
		}
		s := c.services[c.rng.IntN(len(c.services))]
		switch r := c.rng.IntN(100); {
		case r < 22:
			c.create(ctx, s)
		case r < 29:
			c.delete(ctx, s)
		case r < 44:
			c.change(ctx, s, Change)
		case r < 58:
			c.change(ctx, s, Add)
		case r < 70:
			c.change(ctx, s, Remove)
		case r < 88:
			c.get(ctx, s, coordinator)
		case r < 92:
			c.get(ctx, s, 1<<(1+c.rng.IntN(len(s.words)-1)))
		default:
			c.getService(ctx, s)
		}
	}
}

func (c *caller) places(s service) Places { return Places(c.rng.UintN(256)) & s.all() }

func (c *caller) create(ctx context.Context, s service) {
	in := Input{Kind: Create, ID: c.history.nextID(), Places: c.places(s)}
	group := s.name
	if c.rng.IntN(3) == 0 {
		group += "-other"
	}
	def, err := s.definition(in.ID, in.Places, group)
	if err != nil {
		c.history.record(c.number, s.name, in, Output{Answer: Strange, Text: err.Error()}, c.history.now(), nil)
		return
	}
	opts := client.CreateOptions{Wait: createWait}
	if c.rng.IntN(3) > 0 {
		in.Keyed, opts.IdempotencyKey = true, fmt.Sprintf("%d/%s/%d", c.history.Seed, s.name, in.ID)
	}
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
		if !in.Keyed || out.Answer != Unknown && out.Answer != Nothing && c.rng.IntN(6) > 0 {
			return
		}
	}
}

func (c *caller) delete(ctx context.Context, s service) {
	in := Input{Kind: Delete, ID: c.history.nextID()}
	call := c.history.now()
	_, err := c.api().DeleteService(ctx, s.name, client.DeleteOptions{})
	c.history.record(c.number, s.name, in, answerOf(in, err), call, nil)
}

func (c *caller) change(ctx context.Context, s service, kind Kind) {
	in := Input{Kind: kind, ID: c.history.nextID(), Places: c.places(s)}
	if kind != Change && in.Places == 0 {
		in.Places = 2
	}
	if c.rng.IntN(2) == 0 {
		in.IfMatch = c.known[s.name]
	}
	opts := client.ChangeOptions{IfMatch: in.IfMatch, Async: true}
	call := c.history.now()
	var res *v1.Replicas
	var err error
	switch kind {
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

func (c *caller) get(ctx context.Context, s service, at Places) {
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

func (c *caller) getService(ctx context.Context, s service) {
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
func (c *caller) look(s service, r *v1.Replicas, out *Output) *View {
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
