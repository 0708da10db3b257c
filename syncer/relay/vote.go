package relay

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Question is about a service that the cluster may be given.
type Question struct {
	// Service is its name, and Owner the subject of its owner.
	Service, Owner string
	// Definition is without secrets and without its script.
	Definition json.RawMessage
	// Left names the buckets of earlier lives that it may attach to, and LeftBy the services
	// that may have made those.
	Left, LeftBy []string
	// SecretLeft says that an earlier life has left the Secret of its name.
	SecretLeft bool
	// Token is the owner's own; empty for the administrator's service.
	Token string
}

// Vote is what the cluster would vote.
type Vote struct {
	// Reason and Message say why not; empty for a yes.
	Reason, Message string
	// Delay is what the writes before the service's will take.
	Delay time.Duration
}

// vote answers POST /votes/{service}: what the cluster would vote if the service was ordered now.
// OSCAR is read as for a vote. A user's service is asked about with his own token alone.
func (h *handler) vote(w http.ResponseWriter, r *http.Request) {
	const what = "vote"
	refuse := func(status int, word, text string) { h.refuse(w, what, &refusal{status, word, text}) }
	var question v1.RelayQuestion
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, v1.MaxRelayQuestion))
	switch {
	case isTooLarge(err):
		h.refuse(w, what, tooLarge(v1.MaxRelayQuestion))
		return
	case err != nil || json.Unmarshal(body, &question) != nil || question.Owner == "" || !v1.ForwardName(r.PathValue("service")):
		refuse(http.StatusBadRequest, v1.RelayNotAllowed, "this is no question about a service")
		return
	}
	token := r.Header.Get(v1.RelayUserTokenHeader)
	if token != "" && (!printable(token, maxUserToken) || subjectOf(token) != question.Owner) {
		refuse(http.StatusForbidden, v1.RelayNotAllowed, "a user's service is asked about with his own access token alone")
		return
	}
	give, no := takeSlot(h.asks, r)
	if no != nil {
		h.refuse(w, what, no)
		return
	}
	defer give()
	ctx, cancel := context.WithTimeout(r.Context(), h.limits.Ask)
	defer cancel()
	vote, err := h.site.Vote(ctx, Question{
		Service: r.PathValue("service"), Owner: question.Owner, Definition: question.Service, Left: question.Left, LeftBy: question.LeftBy,
		SecretLeft: question.SecretLeft, Token: token,
	})
	if err != nil {
		refuse(http.StatusServiceUnavailable, v1.RelayAway, err.Error())
		return
	}
	out := v1.RelayVote{Answer: v1.VoteYes, Reason: vote.Reason, Message: vote.Message, DelayS: int64(math.Round(vote.Delay.Seconds()))}
	if vote.Reason != "" {
		out.Answer = v1.VoteNo
	}
	answer, err := json.Marshal(out)
	if err != nil {
		refuse(http.StatusServiceUnavailable, v1.RelayAway, "the answer cannot be written")
		return
	}
	h.counted(what, "passed")
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(answer) // the caller asks again after a broken answer
}
