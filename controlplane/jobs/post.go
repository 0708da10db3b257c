package jobs

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store/record"
)

// How many jobs one instance sends to endpoints at the same time: all, those of an account, and those of a
// federation.
const (
	posts             = 32
	postsOfAccount    = 16
	postsOfFederation = 8
)

// tellTimeout bounds a write that an instance makes also while it stops.
const tellTimeout = 10 * time.Second

// poster sends jobs to members of type endpoint. An instance first writes its name into the
// job's record, so that no other instance sends the job too. When it dies in between, the
// outcome is uncertain.
type poster struct {
	// instance identifies this process.
	instance string
	// strict verifies certificates; lax does not, for members with ssl_verify false.
	strict, lax *http.Client

	mu sync.Mutex
	// seen is when this instance first saw a posting of another one.
	seen map[record.Posting]time.Time
	// outcomes are those of jobs that this instance has sent, by job id, until they are
	// written.
	outcomes map[string]postedWhat
}

func newPoster(allowed []netip.Prefix, dial outbound.Dial) *poster {
	client := func(insecure bool) *http.Client {
		transport := outbound.Transport(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}) //nolint:gosec // the member's own ssl_verify: false
		// When an idle connection closes during a POST, it is unknown whether the POST arrived:
		// each POST has its own connection.
		transport.DisableKeepAlives = true
		transport.MaxResponseHeaderBytes = 64 << 10
		outbound.OnlyPublic(transport, allowed, dial)
		return &http.Client{
			Timeout:       postTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     transport,
		}
	}
	return &poster{instance: record.NewUID(), strict: client(false), lax: client(true), seen: map[record.Posting]time.Time{}, outcomes: map[string]postedWhat{}}
}

// postJob takes the next step of a job that is assigned to an endpoint, and says when to
// look again.
func (c *Controller) postJob(ctx context.Context, id string) (again time.Duration, err error) {
	if c.gate.Unverified() {
		return 0, gate.ErrStale
	}
	sit, rev, ok := c.postSituation(id)
	if !ok {
		return 0, nil
	}
	j := sit.job
	switch {
	case j.Posting == nil:
	case j.Posting.Instance == c.poster.instance:
		// One goroutine handles a job at a time: an earlier one of this instance could not write
		// the outcome. A job without a remembered outcome was not sent.
		return 0, c.tellPosted(ctx, id, c.poster.outcomeOf(id))
	default:
		if left := c.poster.waitFor(*j.Posting); left > 0 {
			return left, nil
		}
		return 0, c.takeStep(ctx, sit, rev, uncertain(sit, "whoever delivered it did not say what came of it"))
	}
	if sit.disbanded {
		return 0, c.takeStep(ctx, sit, rev, sit.end(record.JobCancelled, record.JobFederationGone, "its federation was deleted"))
	}
	request, err := c.postRequest(ctx, &j)
	switch {
	case errors.Is(err, errNoEndpoint):
		return 0, c.takeStep(ctx, sit, rev, sit.withdraw(record.JobWithdrawn, err.Error()))
	case errors.Is(err, errNoEvent):
		c.cfg.Logger.Error("the event of a job cannot be had", "job", id, "error", err)
		return 0, c.takeStep(ctx, sit, rev, sit.eventLost())
	case err != nil:
		return 0, err
	}
	next := j
	at := record.At(c.cfg.Now())
	next.Posting, next.ChangedAt = &record.Posting{Instance: c.poster.instance, At: at}, at
	if err := c.beginPost(ctx, sit, rev, next); err != nil {
		return 0, err
	}
	what := c.poster.post(ctx, request)
	c.poster.note(id, &what)
	return 0, c.tellPosted(ctx, id, what)
}

// beginPost writes that this instance delivers a job. It is not cut off when the instance stops: nobody
// else could tell that the job was not sent.
func (c *Controller) beginPost(ctx context.Context, sit situation, rev int64, next record.Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	return c.takeStep(ctx, sit, rev, decision{name: "post", next: next})
}

// tellPosted writes the outcome of a job that this instance has sent, also while the instance
// stops.
func (c *Controller) tellPosted(ctx context.Context, id string, what postedWhat) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	tries := gate.NewRetries()
	for {
		sit, rev, ok := c.postSituation(id)
		if !ok || sit.job.Posting == nil || sit.job.Posting.Instance != c.poster.instance {
			c.poster.note(id, nil)
			return nil // a person has resolved it
		}
		err := c.takeStep(ctx, sit, rev, decidePosted(sit, what))
		if err == nil {
			c.poster.note(id, nil)
		}
		if !errors.Is(err, gate.ErrStale) {
			return err
		}
		if tries.Next(ctx, err) != nil {
			return err
		}
	}
}

// note remembers the outcome of a job; nil forgets it.
func (p *poster) note(id string, what *postedWhat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.outcomes, id); what != nil {
		p.outcomes[id] = *what
	}
}

// outcomeOf is the outcome of a job. A job without a remembered outcome was not sent.
func (p *poster) outcomeOf(id string) postedWhat {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what, ok := p.outcomes[id]; ok {
		return what
	}
	return postedWhat{unsent: true, message: "the control plane lost etcd before it asked the endpoint"}
}

// tenantOf is whose a job is.
func (c *Controller) tenantOf(id string) (out share.Tenant) {
	c.state.Read(func(v *view.View) {
		if j := v.Jobs.ByID.Get(id).Rec; j != nil {
			out.Account, out.Federation = view.AccountOf(j), j.Federation
			out.Weights = c.cfg.Weights.Of(out.Account, j.GroupID)
		}
	})
	return out
}

// postSituation is false for a job that is not at an endpoint.
func (c *Controller) postSituation(id string) (sit situation, rev int64, ok bool) {
	c.state.Read(func(v *view.View) {
		j := v.Jobs.ByID.Get(id)
		if j.Rec == nil || !v.Jobs.Posted.Get(id) || j.Rec.State != record.JobAssigned {
			return
		}
		ok, rev = true, j.Rev
		sit, _ = situationOfJob(v, j.Rec, c.cfg.Now())
	})
	return sit, rev, ok
}

// takeStep writes one decision about a job at an endpoint.
func (c *Controller) takeStep(ctx context.Context, sit situation, rev int64, d decision) error {
	var p *step
	c.state.Read(func(v *view.View) {
		was := sit.job
		p = stepOf(v, view.Versioned[record.Job]{Rec: &was, Rev: rev}, 0, d)
	})
	done, err := c.commitJobs(ctx, []*step{p})
	if err == nil && len(done) == 0 {
		return gate.ErrStale
	}
	return err
}

// waitFor is how much longer to wait for another instance that sends a job.
func (p *poster) waitFor(of record.Posting) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for other, at := range p.seen {
		if now.Sub(at) > 2*postingLost {
			delete(p.seen, other)
		}
	}
	first, ok := p.seen[of]
	if !ok {
		p.seen[of], first = now, now
	}
	return postingLost - now.Sub(first)
}

// outgoing is a request to an endpoint.
type outgoing struct {
	url     string
	headers map[string]string
	name    string
	body    []byte
	lax     bool
}

// postRequest makes the request for a job: its event, with the member's own headers; errNoEndpoint or errNoEvent when one is
// gone.
func (c *Controller) postRequest(ctx context.Context, j *record.Job) (*outgoing, error) {
	var f *record.Federation
	c.state.Read(func(v *view.View) { f = v.Federations.Get(j.Federation).Rec })
	if f == nil {
		return nil, gate.ErrStale
	}
	view, err := c.store.Read(ctx, record.EventKey(j.Job))
	if err != nil {
		return nil, err
	}
	body, err := c.openEvent(view, j.Job)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	s, err := c.federations.WithSecrets(ctx, f)
	if err != nil {
		return nil, err
	}
	var members []oscar.Member
	if s.Federation != nil {
		members = s.Federation.Members
	}
	i := slices.IndexFunc(members, func(m oscar.Member) bool { return !m.Replica() && m.URL == j.Place.URL })
	if i < 0 {
		return nil, errNoEndpoint
	}
	m := members[i]
	return &outgoing{
		url: m.URL, name: record.JobName(j.Service, j.Job, j.Attempt), body: body, headers: m.Headers, lax: m.SSLVerify != nil && !*m.SSLVerify,
	}, nil
}

var (
	errNoEndpoint = errors.New("the endpoint is no member any more")
	errNoEvent    = errors.New("the event cannot be read")
)

// post sends a request, once.
func (p *poster) post(ctx context.Context, out *outgoing) postedWhat {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, out.url, bytes.NewReader(out.body))
	if err != nil {
		return postedWhat{unsent: true, message: "the url of the endpoint is none"}
	}
	req.GetBody = nil // it is not sent again by itself
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if json.Valid(out.body) {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Delegated-Job-ID", out.name)
	for name, value := range out.headers {
		req.Header.Set(name, value)
	}
	client := p.strict
	if out.lax {
		client = p.lax
	}
	resp, err := client.Do(req)
	if err != nil {
		// The text of the error may have the url, which may have a secret.
		what := postedWhat{unsent: !connected.Load(), message: "the endpoint did not answer"}
		if what.unsent {
			what.message = "the endpoint cannot be reached"
		}
		if refused, ok := errors.AsType[*outbound.NotPublicError](err); ok {
			what.message = fmt.Sprintf("the endpoint is at %s; --endpoint-networks of the control plane can allow it", refused.Why)
		}
		return what
	}
	defer resp.Body.Close()
	return postedWhat{status: resp.StatusCode, message: fmt.Sprintf("the endpoint answered %d", resp.StatusCode)}
}
