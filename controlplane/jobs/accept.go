package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// retryJobs is the Retry-After of a job that was refused because too many jobs are in flight.
const retryJobs = 5 * time.Second

// Request asks for a job.
type Request struct {
	Service string
	// ClusterID tells services of one name apart; empty where there is only one.
	ClusterID string
	// Event is the body, as it reaches the service.
	Event          []byte
	IdempotencyKey string
	RequestID      string
}

// Submit stores a job: when it answers, the job is accepted and will end in a named
// state. The caller may see the service, or has its token. The same Idempotency-Key
// with the same event answers the same job.
func (c *Controller) Submit(ctx context.Context, caller identity.Caller, req Request) (*Job, error) {
	if err := checkEvent(req.Event); err != nil {
		return nil, err
	}
	if err := c.gate.CheckVerified(); err != nil {
		return nil, err
	}
	req.RequestID = request.ID(req.RequestID)
	p, err := c.FindMember(ctx, caller, req)
	if err != nil {
		return nil, err
	}
	s, err := c.submission(caller, req, p)
	if err != nil {
		return nil, err
	}
	release, err := c.spaceForJob(ctx, caller, s)
	if err != nil {
		return nil, err
	}
	defer release()
	waiting, end := tracing.Start(ctx, "job accept", attribute.String("job", s.job.Job))
	id, err := c.acceptor.submit(waiting, s)
	end(err)
	if err != nil {
		if e, ok := errors.AsType[*fault.Error](fault.Crossing(err)); ok && e.Code == fault.CodeUnknownOutcome {
			if id = c.storedAs(ctx, s, id); id != "" {
				e.Location = "/system/jobs/" + id
			}
			return nil, e
		}
		return nil, fault.Crossing(err)
	}
	var shown *Job
	c.state.Read(func(v *view.View) { shown = viewOf(v, id) })
	if shown == nil { // it has ended and was swept already
		return nil, fault.NotFound(fmt.Sprintf("job %s is not known any more", id))
	}
	shown.Replayed = id != s.job.Job
	return shown, nil
}

// storedTimeout is how long it is looked for the job of a request whose outcome is not known.
const storedTimeout = 2 * time.Second

// storedAs is the job that a submission is stored as, if it is. id is what is known of it. Of one with an
// Idempotency-Key an earlier try may have made another job than this one would; empty when it is not known which.
func (c *Controller) storedAs(ctx context.Context, s *submission, id string) string {
	if s.claim.Hash == "" {
		return s.job.Job
	}
	if id != "" && id != s.job.Job {
		return id
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedTimeout)
	defer cancel()
	read, err := c.store.Read(ctx, record.RequestKey(s.claim.Hash))
	if err != nil {
		return ""
	}
	id, _ = c.sameRequest(read, s.claim) // what it refuses is told to who sends it again
	return id
}

// spaceForJob reserves space in the store for a job: an assigned job has its event there twice.
// A repeated request needs no space.
func (c *Controller) spaceForJob(ctx context.Context, caller identity.Caller, s *submission) (release func(), err error) {
	release, err = c.requests.Reserve(caller, view.AccountOf(&s.job), gate.JobBytes+2*int64(len(s.event.Sealed)))
	if err != nil && c.federations.RequestKnown(ctx, s.claim) {
		return func() {}, nil
	}
	return release, err
}

// checkEvent refuses what cannot be an environment variable of a pod.
func checkEvent(event []byte) error {
	switch {
	case len(event) > oscar.MaxEventBytes:
		return &fault.Error{Code: fault.CodeTooLarge, Message: fmt.Sprintf("the event has %d bytes, and a job can carry %d; put it into a bucket and send where it is", len(event), oscar.MaxEventBytes)}
	case !utf8.Valid(event):
		return &fault.Error{Code: fault.CodeInvalid, Message: "the event is not UTF-8, which a job cannot carry; send it in base64"}
	case bytes.IndexByte(event, 0) >= 0:
		return &fault.Error{Code: fault.CodeInvalid, Message: "the event has a NUL, which a job cannot carry; send it in base64"}
	}
	return nil
}

// FindMember finds the member whose service the request names. The service may be new: when the
// state does not have it, it looks again once the state is as new as the store.
func (c *Controller) FindMember(ctx context.Context, caller identity.Caller, req Request) (view.MemberRef, error) {
	p, err := c.findMember(caller, req)
	if err == nil {
		return p, nil
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return view.MemberRef{}, err
	}
	return c.findMember(caller, req)
}

func (c *Controller) findMember(caller identity.Caller, req Request) (view.MemberRef, error) {
	p, err := c.state.Find(caller, req.Service, req.ClusterID)
	if err != nil {
		return view.MemberRef{}, err
	}
	return p, admits(p.Rec, req.Service)
}

// admits says whether a federation takes jobs. A paused federation takes and holds them.
func admits(f *record.Federation, service string) error {
	if word := record.Strange(f); word != "" {
		return fault.NewerVersion(fmt.Sprintf("federation %q", f.GroupID), word)
	}
	switch f.Phase {
	case record.PhaseReady:
		return nil
	case record.PhasePreparing, record.PhaseApplying:
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("service %q is being created; send the job when it is ready", service)}
	}
	return view.NoService(service, f.Phase)
}

// submission makes a job ready to be stored.
func (c *Controller) submission(caller identity.Caller, req Request, p view.MemberRef) (*submission, error) {
	m, now := p.At(), record.At(c.cfg.Now())
	job := record.Job{
		V: record.Version, Job: record.NewUID(), Federation: p.UID, GroupID: p.Rec.GroupID, Owner: p.Rec.Owner,
		Cluster: m.ClusterID, Service: m.ServiceName, RequestID: req.RequestID, Size: len(req.Event), BucketEvent: oscar.BucketEvent(req.Event),
		State: record.JobQueued, By: caller.Subject, AcceptedAt: now, ChangedAt: now,
	}
	sealed, err := c.sealer.Seal(seal.Header{Purpose: seal.PurposeEvent, UID: job.Job}, req.Event, c.sealer.Own())
	if err != nil {
		return nil, err
	}
	s := &submission{
		job: job, event: record.Event{V: record.Version, Sealed: sealed}, body: req.Event, fedRev: p.Rev, done: make(chan struct{}),
		claim: request.ClaimFor(view.AccountOf(&job), caller, request.Repeat{Key: req.IdempotencyKey, Method: "POST", Path: "/job/" + req.Service + "@" + req.ClusterID, Body: string(req.Event)}, req.RequestID),
	}
	s.job.Request = s.claim.Hash
	s.admits = func(f *record.Federation) error {
		if err := admits(f, m.ServiceName); err != nil {
			return err
		}
		if at := view.MemberOf(f.Members, m.UID); at < 0 || caller.Service == "" && !caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers) {
			return view.NoService(m.ServiceName, "")
		}
		return nil
	}
	return s, nil
}

// refusedFor says which limit of jobs in flight one more job would exceed; nil for none. Who is not the
// owner may have fewer in a federation than are free there, so that nobody alone keeps others from a
// service that is for several.
// Each instance counts the jobs that it has seen, so several instances can together exceed
// a limit by the jobs that they accept at the same moment.
func (c *Controller) refusedFor(j *record.Job, has load) error {
	account, free := view.AccountOf(j), c.cfg.PerFederation-has.federation
	var why string
	switch {
	case free <= 0:
		why = fmt.Sprintf("federation %s has %d jobs in flight, and %d are allowed", j.GroupID, has.federation, c.cfg.PerFederation)
	case account != j.Owner && has.own >= free:
		why = fmt.Sprintf("%s has %d jobs in flight in federation %s, and %d more are allowed there: who is not its owner may have fewer than are free", account, has.own, j.GroupID, free)
	case has.account >= c.cfg.PerUser:
		why = fmt.Sprintf("%s has %d jobs in flight, and %d are allowed", account, has.account, c.cfg.PerUser)
	default:
		return nil
	}
	return &fault.Error{Code: fault.CodeExhausted, Message: why + "; wait for some to end", RetryAfter: retryJobs}
}

// sameRequest finds the job that the same request has made before; empty for none.
func (c *Controller) sameRequest(v store.View, q request.Claim) (job string, err error) {
	kv, ok := v.KV(record.RequestKey(q.Hash))
	if q.Hash == "" || !ok {
		return "", nil
	}
	r, err := store.Decode[record.Request](kv)
	switch {
	case err != nil:
		return "", err
	case r.BodyHash != q.BodyHash:
		return "", request.KeyReused()
	}
	return r.UID, nil
}
