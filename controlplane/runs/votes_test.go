package runs

import (
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// A syncer may be anybody's, or of an earlier version: what is no vote is none.
func TestWhatCountsAsAVote(t *testing.T) {
	for answer, want := range map[string]string{
		`{"answer":"yes","delay_s":3}`:                                   "yes",
		`{"answer":"no","reason":"NameTaken","message":"m","delay_s":0}`: "no",
		`{"answer":"perhaps"}`:                                           "unknown",
		`{"answer":"yes","delay_s":-1}`:                                  "unknown",
		`{"answer":"unknown"}`:                                           "unknown",
		`null`:                                                           "unknown",
		`[]`:                                                             "unknown",
		``:                                                               "unknown",
		`{"answer":"no","message":"` + strings.Repeat("x", v1.MaxRelayVote) + `"}`: "unknown",
	} {
		got := voteOf(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, nil)
		if got.Answer != want || want == v1.VoteUnknown && got.Message == "" {
			t.Errorf("%.60s: %+v", answer, got)
		}
	}
	got := voteOf(nil, &relay.Error{Word: v1.RelayNotAllowed, Text: "the syncer of this cluster passes nothing of this kind on"})
	if got.Answer != v1.VoteUnknown || !strings.Contains(got.Message, "earlier version") {
		t.Errorf("an earlier version: %+v", got)
	}
	if got := voteOf(nil, &relay.Error{Text: "its syncer has no stream to this instance"}); got.Answer != v1.VoteUnknown || got.Message != "its syncer has no stream to this instance" {
		t.Errorf("no stream: %+v", got)
	}
}
