package services

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// phase is the stream of a federation in a phase.
type phase string

func (p phase) RoundTrip(r *http.Request) (*http.Response, error) {
	body, more := io.Pipe()
	go func() {
		_, _ = io.WriteString(more, "event: replicas\nid: 1\ndata: {\"uid\":\"u\",\"phase\":\""+string(p)+"\"}\n\n")
		<-r.Context().Done()
		_ = more.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
}

// slow is a terminal that takes longer than the command may wait.
type slow struct{ strings.Builder }

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(time.Hour)
	return s.Builder.Write(p)
}

// A phase that was waited for and seen is the outcome, however long it takes to show it; another one is not.
func TestAPhaseThatIsSeenIsTheOutcome(t *testing.T) {
	for is, want := range map[phase]int{"ready": exit.Done, "rolled_back": exit.Failed, "applying": exit.InProgress} {
		synctest.Test(t, func(t *testing.T) {
			api, err := client.New(client.Config{Endpoint: "http://api.test", Transport: is})
			if err != nil {
				t.Fatal(err)
			}
			c := waitCmd{Name: "s", Timeout: time.Minute}
			if err := c.within(t.Context(), &command.App{Stderr: &slow{}}, api, c.forService); exit.StatusOf(err) != want {
				t.Errorf("%s: %v", is, err)
			}
		})
	}
}
