package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

const (
	told    = "event: change\ndata: {\"kind\":\"cluster\",\"name\":\"a\",\"cluster\":{\"cluster_id\":\"a\",\"state\":\"%s\"}}\n\n"
	marked  = "event: bookmark\nid: 7\ndata: {\"revision\":7,\"epoch\":\"e\"}\n\n"
	refused = "event: end\ndata: {\"code\":\"unauthenticated\",\"status\":401,\"title\":\"over\"}\n\n"
)

// answers gives one answer after the other: a status, and the text of a stream or of a thing.
type answers struct {
	list  []string
	asked int
}

func (s *answers) RoundTrip(*http.Request) (*http.Response, error) {
	next := s.list[min(s.asked, len(s.list)-1)]
	s.asked++
	var status int
	_, _ = fmt.Sscan(next, &status)
	media, text := v1.ProblemType, next[3:]
	switch {
	case strings.HasPrefix(text, "event:"):
		media = "text/event-stream"
	case status < 300:
		media = "application/json"
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// A watch of a list goes on past an outage also when its place in the stream was lost just before, and when the thing that
// an event is about has to be asked for.
func TestAWatchOfAListGoesOnPastAnOutage(t *testing.T) {
	away, gone := `503{"code":"unavailable"}`, `410{"code":"expired"}`
	thing, stream := `200{"cluster_id":"a","state":"%s"}`, "200"+told+marked
	tests := map[string]struct {
		list []string
		rows []string
	}{
		"with its place lost": {
			list: []string{fmt.Sprintf(stream, "active"), fmt.Sprintf(thing, "active"), gone, away, away, away, away, away, away, fmt.Sprintf(stream, "paused"), fmt.Sprintf(thing, "paused"), "200" + refused},
			rows: []string{"a active", "a paused"},
		},
		"while a thing is asked for": {
			list: []string{fmt.Sprintf(stream, "active"), away, away, away, away, away, fmt.Sprintf(stream, "active"), fmt.Sprintf(thing, "active"), "200" + refused},
			rows: []string{"a active"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &answers{list: tt.list}
				api, err := client.New(client.Config{Endpoint: "http://api.test", Transport: s})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				var out, said bytes.Buffer
				err = watchList(ctx, &App{Stdout: &out, Stderr: &said, Form: output.FormTable, NoHeaders: true}, api, &Listing{}, Kind[v1.Cluster]{
					Table: func(list []v1.Cluster) *output.Table {
						table := output.NewTable("CLUSTER", "STATE")
						for _, c := range list {
							table.Row(c.ClusterID, c.State)
						}
						return table
					},
					Event: v1.EventCluster, Name: func(c v1.Cluster) string { return c.ClusterID },
					Of: func(ctx context.Context, api *client.Client, e *v1.Event) (v1.Cluster, error) {
						c, err := api.Cluster(ctx, e.Name)
						if err != nil {
							return v1.Cluster{}, err
						}
						return *c, nil
					},
				}, nil)
				var rows []string
				for line := range strings.Lines(out.String()) {
					rows = append(rows, strings.Join(strings.Fields(line), " "))
				}
				if exit.StatusOf(err) != exit.NotAuthorised || strings.Join(rows, ",") != strings.Join(tt.rows, ",") {
					t.Errorf("%v, rows %q\n%s", err, rows, said.String())
				}
			})
		})
	}
}
