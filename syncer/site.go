package syncer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// Relay keeps streams to the control plane; *relay.Relay is one.
type Relay interface {
	// Run answers for a site until ctx ends.
	Run(ctx context.Context, site relay.Site)
}

// siteAge is how old a list of OSCAR's services may be by which the control plane is told of one.
const siteAge = 5 * time.Second

// site is this cluster for the requests on streams, as long as a session lasts: a syncer
// without a session has no streams.
type site struct {
	session  *session.Session
	answers  *answers.Answers
	services *services.Services
	oscar    passer
}

// passer passes requests on to OSCAR.
type passer interface {
	Pass(ctx context.Context, in manager.Pass) (*http.Response, error)
}

// Cluster implements relay.Site.
func (s site) Cluster() (id, uid string) {
	return s.session.ID, s.session.UID()
}

// OpenProof implements relay.Site. The envelope has no end: it is the control plane that
// judges what is inside, by its own clock.
func (s site) OpenProof(sealed string) (string, error) {
	id, uid := s.Cluster()
	proof, err := s.session.Identity.Open(sealed, seal.Header{Purpose: seal.PurposeRelay, Cluster: id, UID: uid}, s.session.Now())
	return string(proof), err
}

// applied is the desired record of a life that is to stand here.
func (s site) applied(service, uid string) (*record.Desired, error) {
	view := s.session.Mirror.Snapshot()
	c, err := s.session.Serves(view.KV(record.DesiredClusterKey(s.session.ID)))
	if err != nil {
		return nil, err
	}
	if s.session.Restored(c) {
		return nil, errors.New("the store was restored, and nothing is concluded from it yet")
	}
	kv, ok := view.KV(record.DesiredServiceKey(s.session.ID, service))
	if !ok {
		return nil, relay.ErrNotOurs
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", service, err)
	}
	if d.UID != uid || d.Intent != record.IntentApply {
		return nil, relay.ErrNotOurs
	}
	return d, nil
}

// Ours implements relay.Site: the record says that it is to stand here, and OSCAR shows it
// with the token of this life.
func (s site) Ours(ctx context.Context, service, uid string) error {
	d, err := s.applied(service, uid)
	if err != nil {
		return err
	}
	list, _, err := s.answers.Lists.Get(ctx, s.services.NewEnough(service, s.session.Now(), siteAge))
	if err != nil {
		return err
	}
	if here := list.Services[service]; here == nil || record.Mark(here.Token) != d.Mark {
		return relay.ErrNotOurs
	}
	return nil
}

// Invokes implements relay.Site. That the service which stands here has this token is for
// OSCAR to say: it takes no other.
func (s site) Invokes(service, uid, token string) bool {
	d, err := s.applied(service, uid)
	return err == nil && record.Mark(token) == d.Mark
}

// errCannotTell stands for what would say more than the control plane needs to know.
var errCannotTell = errors.New("the cluster cannot tell now")

// Vote implements relay.Site.
func (s site) Vote(ctx context.Context, q relay.Question) (relay.Vote, error) {
	def, err := definition.Asked(q.Definition, q.Left, q.LeftBy)
	if err != nil {
		return relay.Vote{}, err
	}
	opinion, err := s.services.Ask(ctx, services.Question{Name: q.Service, Owner: q.Owner, Definition: def, SecretLeft: q.SecretLeft, Token: manager.Bearer(q.Token)})
	if err != nil {
		if told, ok := errors.AsType[*services.CannotTellError](err); ok {
			return relay.Vote{}, told
		}
		s.session.Log.Warn("a question of the control plane cannot be answered", "service", q.Service, "error", err)
		return relay.Vote{}, errCannotTell
	}
	return relay.Vote{Reason: string(opinion.Reason), Message: opinion.Message, Delay: opinion.Delay}, nil
}

// Send implements relay.Site.
func (s site) Send(ctx context.Context, out relay.Outgoing) (*http.Response, error) {
	resp, err := s.oscar.Pass(ctx, manager.Pass{
		Method: out.Method, Path: out.Path, Query: out.Query, Header: out.Header, Body: out.Body, Length: out.Length, As: manager.Bearer(out.Token),
	})
	if err != nil && manager.NotSent(err) {
		err = fmt.Errorf("%w: %w", relay.ErrNotSent, err)
	}
	if err != nil {
		s.session.Log.Warn("a request of the control plane was not answered by OSCAR", "error", err)
	}
	return resp, err
}
