package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/share"
)

// voteTimeout is how long a cluster may take: votes have as long (see federations).
const voteTimeout = 15 * time.Second

// Votes asks each cluster what it would vote now, all at the same time, with the caller's own token.
// The answers are in the order of the questions. It writes nothing, and the clusters promise nothing.
func (c *Controller) Votes(ctx context.Context, caller identity.Caller, questions []relay.Question) []v1.PlanVote {
	token, _ := caller.Token()
	out := make([]v1.PlanVote, len(questions))
	replicas := make([]relay.Replica, len(questions))
	c.state.Read(func(v *view.View) {
		for i, q := range questions {
			reg := v.Clusters.Get(q.Cluster).Rec
			switch {
			case reg == nil || reg.Revoked != nil:
				out[i] = unknown("there is no such cluster")
			case q.Owner != oscar.OwnerAdmin && (token == "" || caller.Subject != q.Owner):
				out[i] = unknown("a user's service is asked about with his own access token: he can ask himself")
			default:
				replicas[i] = relay.Replica{
					Cluster: q.Cluster, ClusterUID: reg.UID, Service: q.Service, Tenant: share.Tenant{Account: c.word(caller.Subject)}, Wait: voteTimeout,
				}
			}
		}
	})
	ctx, cancel := context.WithTimeout(ctx, voteTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, r := range replicas {
		if r.Cluster == "" {
			continue
		}
		as := token
		if questions[i].Owner == oscar.OwnerAdmin {
			as = ""
		}
		all.Go(func() {
			resp, err := wholly(c.relay.Vote(ctx, r, questions[i].RelayQuestion, as))
			if err != nil && ctx.Err() != nil {
				out[i] = unknown(fmt.Sprintf("it has not answered within %s", voteTimeout))
				return
			}
			out[i] = voteOf(resp, err)
		})
	}
	all.Wait()
	return out
}

func unknown(why string) v1.PlanVote { return v1.PlanVote{Answer: v1.VoteUnknown, Message: why} }

// voteOf reads an answer. A syncer may be anybody's.
func voteOf(resp *http.Response, err error) v1.PlanVote {
	if err != nil {
		e, ok := errors.AsType[*relay.Error](err)
		switch {
		case !ok:
			return unknown("it was not asked")
		case e.Word == v1.RelayNotAllowed:
			return unknown("its syncer answers no such question: it may be of an earlier version")
		}
		return unknown(e.Text)
	}
	defer resp.Body.Close()
	var vote v1.RelayVote
	dec := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, v1.MaxRelayVote))
	if resp.StatusCode != http.StatusOK || dec.Decode(&vote) != nil || vote.Answer != v1.VoteYes && vote.Answer != v1.VoteNo || vote.DelayS < 0 {
		return unknown("its answer is no vote")
	}
	return v1.PlanVote(vote)
}
