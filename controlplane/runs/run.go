package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Request invokes a service.
type Request struct {
	Service string
	// ClusterID says which service of that name; empty for the caller's own.
	ClusterID string
	// Header holds the headers for the function; it carries no credentials.
	Header http.Header
	// Body is streamed; Length is -1 when it is not known.
	Body   io.Reader
	Length int64
}

// Answer is what OSCAR answers, whatever its status.
type Answer struct {
	// ClusterID that answered.
	ClusterID string
	Status    int
	Header    http.Header
	// Length of the body, or -1.
	Length int64
	// Body is to be closed; closing it early ends the invocation.
	Body io.ReadCloser
}

// Invoke runs a service at the member that the policy picks, and at the next one only
// if nothing was sent yet. A member is asked on its syncer's stream, which leads to the
// cluster that has proven to be it; without one at its registered address.
func (c *Controller) Invoke(ctx context.Context, caller identity.Caller, req Request) (*Answer, error) {
	p, err := c.jobs.FindMember(ctx, caller, jobs.Request{Service: req.Service, ClusterID: req.ClusterID})
	if err != nil {
		return nil, err
	}
	if p.Rec.Paused {
		return nil, &fault.Error{Code: fault.CodeUnavailable, Message: "the federation is paused", RetryAfter: time.Minute}
	}
	need, err := c.jobs.NeedsOf(ctx, p.Rec)
	if err != nil {
		return nil, fault.Crossing(err)
	}
	targets, tried := c.runOrder(p, need)
	in := relay.Invocation{Header: req.Header, Body: &once{from: req.Body}, Length: req.Length}
	tenant := c.tenant(caller, p.Rec)
	var busy []target
	for _, t := range targets {
		t.Tenant = tenant
		answer, no, err := c.ask(ctx, t, in)
		switch {
		case no == nil:
			return answer, err
		case no.Word == v1.RelayBusy:
			busy = append(busy, t)
		default:
			tried = append(tried, t.Cluster+": "+no.Text)
		}
	}
	if len(busy) > 0 { // it waits at the member that the policy prefers
		t := busy[0]
		t.Wait = runWait
		answer, no, err := c.ask(ctx, t, in)
		if no == nil {
			return answer, err
		}
		tried = append(tried, t.Cluster+": "+no.Text)
	}
	return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second,
		Message: "no member could be invoked: " + strings.Join(tried, "; ")}
}

// runWait is for how long an invocation waits at a cluster that answers as many as it does at a time:
// as long as one may take.
const runWait = 5 * time.Minute

// ask invokes a service at one member. no says why that was not sent there: another one may be
// asked.
func (c *Controller) ask(ctx context.Context, t target, in relay.Invocation) (answer *Answer, no *relay.Error, err error) {
	in.Token = c.tokens.ServiceToken(t.UID)
	resp, err := c.invoke(ctx, t, in) //nolint:bodyclose // the caller's, with the answer
	if err == nil {
		return &Answer{ClusterID: t.Cluster, Status: resp.StatusCode, Header: resp.Header, Length: resp.ContentLength, Body: resp.Body}, nil, nil
	}
	e, ok := errors.AsType[*relay.Error](err)
	if body, _ := in.Body.(*once); ok && !e.Sent && !body.touched.Load() {
		return nil, e, nil
	}
	c.cfg.Logger.Warn("an invocation has no answer", "service", t.Service, "cluster", t.Cluster, "error", err)
	return nil, nil, &fault.Error{Code: fault.CodeUnknownOutcome, Cause: err,
		Message: fmt.Sprintf("%s was asked and has not answered; the service may have been invoked, so no other member was", t.Cluster)}
}

// target is a replica that may be invoked, and where.
type target struct {
	relay.Replica
	endpoint  string
	sslVerify bool
}

// runOrder are the members that may be invoked, in the order of the policy, and why the
// others may not. The free capacity of a cluster orders them, where the policy looks at it, but
// bars no member: a function may be running already.
func (c *Controller) runOrder(p view.MemberRef, need *jobs.Needs) (targets []target, barred []string) {
	c.state.Read(func(v *view.View) {
		fl, ok := jobs.CandidatesOf(v, p.UID, need)
		if !ok {
			barred = append(barred, "the federation is not ready")
			return
		}
		m := p.At()
		s := fl.SnapshotFor(&record.Job{Job: record.NewUID(), Cluster: m.ClusterID, Service: m.ServiceName}, nil)
		s.Candidates = slices.DeleteFunc(s.Candidates, func(x delegation.Candidate) bool { return x.URL != "" })
		for i := range s.Candidates {
			// OSCAR gives a function that is invoked no keys of a MinIO: it has its input in
			// the request.
			s.Candidates[i].Inputs, s.Candidates[i].InputsWhy = delegation.InputsReadable, ""
		}
		d := delegation.Choose(s)
		order := d.Order
		// Members that lack only capacity come last.
		s.Request = delegation.Request{}
		for i := range s.Candidates {
			s.Candidates[i].Fresh, s.Candidates[i].Promised = true, nil
			s.Candidates[i].Capacity = delegation.Capacity{Nodes: []delegation.Request{{CPU: 1, Memory: 1}}}
		}
		d = delegation.Choose(s)
		for _, place := range d.Order {
			if !slices.Contains(order, place) {
				order = append(order, place)
			}
		}
		for _, place := range order {
			if t, ok := jobTarget(v, fl.Members, place); ok {
				targets = append(targets, t)
			}
		}
		for _, value := range d.Verdicts {
			if !slices.Contains(order, value.Place) {
				barred = append(barred, value.Place+": "+value.Message)
			}
		}
	})
	return targets, barred
}

func jobTarget(v *view.View, members []record.Member, place string) (target, bool) {
	for _, m := range members {
		if !m.Replica() || m.ClusterID+"/"+m.ServiceName != place {
			continue
		}
		return targetOf(v, m)
	}
	return target{}, false
}

func targetOf(v *view.View, m record.Member) (target, bool) {
	reg := v.Clusters.Get(m.ClusterID).Rec
	if reg == nil || reg.Revoked != nil {
		return target{}, false
	}
	return target{
		Replica:  relay.Replica{Cluster: m.ClusterID, ClusterUID: reg.UID, Service: m.ServiceName, UID: m.UID},
		endpoint: reg.Endpoint, sslVerify: reg.SSLVerify,
	}, true
}

// invoke asks one member. Every error is a *relay.Error: so is a status that nobody can be answered with.
func (c *Controller) invoke(ctx context.Context, t target, in relay.Invocation) (*http.Response, error) {
	resp, err := c.relay.Run(ctx, t.Replica, in)
	if errors.Is(err, relay.ErrNoStream) {
		resp, err = c.direct.run(ctx, t, in, err)
	}
	if err == nil && (resp.StatusCode < http.StatusOK || resp.StatusCode > 599) {
		_ = resp.Body.Close()
		return nil, &relay.Error{Text: fmt.Sprintf("it answers with status %d, which is not passed on", resp.StatusCode), Sent: true}
	}
	return resp, err
}

// once is a body that can be offered to one request after another until one has read of it.
// They do not close it.
type once struct {
	from    io.Reader
	touched atomic.Bool
}

func (o *once) Read(p []byte) (int, error) {
	o.touched.Store(true)
	return o.from.Read(p)
}
