package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

func eventOf(id int64) string {
	return fmt.Sprintf("event: replicas\nid: %d\ndata: {\"group_id\":\"g\",\"revision\":%d}\n\n", id, id)
}

const endOfService = `event: end
data: {"title":"There is nothing of this name","status":404,"code":"not_found","detail":"it is gone","instance":"/","request_id":"r"}

`

// stream is one answer to a watch: its text, and then the stream ends, breaks or
// stands still.
type stream struct {
	status int
	media  string
	// retry is its Retry-After.
	retry string
	text  string
	after func(ctx context.Context) error
}

func ends(context.Context) error   { return io.EOF }
func breaks(context.Context) error { return errors.New("connection reset") }
func stands(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// streams answers watches one after the other, without a network, so that time
// is a bubble's. The last one is the answer to all that follow.
type streams struct {
	list  []stream
	asked []string
	since []string
	at    []time.Time
}

func (s *streams) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL.RequestURI())
	s.since = append(s.since, r.Header.Get("Last-Event-ID"))
	s.at = append(s.at, time.Now())
	next := s.list[min(len(s.asked), len(s.list))-1]
	if next.status == 0 {
		next.status, next.media = 200, "text/event-stream"
	}
	if next.status < 0 {
		return nil, errors.New("connection refused")
	}
	body := io.MultiReader(strings.NewReader(next.text), afterwards{r.Context(), next.after})
	return &http.Response{
		StatusCode: next.status, Status: http.StatusText(next.status), Header: http.Header{"Content-Type": {next.media}, "Retry-After": {next.retry}}, Body: io.NopCloser(body), Request: r,
	}, nil
}

type afterwards struct {
	ctx context.Context
	fn  func(context.Context) error
}

func (a afterwards) Read([]byte) (int, error) {
	if a.fn == nil {
		return 0, io.EOF
	}
	return 0, a.fn(a.ctx)
}

// watched is what a watch told, and how it ended.
type watched struct {
	ids    []int64
	broken []string
	err    error
}

// follow watches until the watch ends, or the tenth view.
func follow(t *testing.T, s *streams, opts client.WatchOptions) watched {
	t.Helper()
	c, err := client.New(client.Config{Endpoint: "http://api.test", Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	var got watched
	opts.Broken = func(err error) { got.broken = append(got.broken, err.Error()) }
	got.err = c.WatchReplicas(t.Context(), "a/b", opts, func(view *v1.Replicas, id int64) error {
		if view.GroupID != "g" || view.Revision != id {
			t.Errorf("got %+v with id %d", view, id)
		}
		got.ids = append(got.ids, id)
		if len(got.ids) == 10 {
			return errEnough
		}
		return nil
	})
	return got
}

var errEnough = errors.New("enough")

func TestWatch(t *testing.T) {
	tests := []struct {
		name   string
		opts   client.WatchOptions
		list   []stream
		ids    []int64
		since  []string
		broken int
		// err is a part of the error's text.
		err string
	}{
		{
			name: "until the service is gone", opts: client.WatchOptions{ClusterID: "c"},
			list: []stream{{text: eventOf(7) + ": ping\n\n" + eventOf(9) + endOfService}},
			ids:  []int64{7, 9}, since: []string{""}, err: "404 not_found: it is gone",
		},
		{
			name: "from where it was",
			list: []stream{{text: eventOf(7), after: breaks}, {text: eventOf(9), after: ends}, {text: eventOf(10)[:25], after: ends}, {text: eventOf(10) + endOfService}},
			ids:  []int64{7, 9, 10}, since: []string{"", "7", "9", "9"}, broken: 2, err: "it is gone",
		},
		{
			name: "from where the caller was", opts: client.WatchOptions{Since: 5},
			list: []stream{{text: endOfService}}, since: []string{"5"}, err: "it is gone",
		},
		{
			name: "away for a while",
			list: []stream{{text: eventOf(7), after: breaks}, {status: -1}, {status: 503}, {status: 429}, {status: 504}, {status: 502}, {status: -1}, {text: eventOf(8) + endOfService}},
			ids:  []int64{7, 8}, since: []string{"", "7", "7", "7", "7", "7", "7", "7"}, broken: 7, err: "it is gone",
		},
		{
			name: "told to come back later",
			list: []stream{{text: eventOf(7), after: breaks}, {status: 429, retry: "15"}, {status: 503, retry: "7200"}, {text: eventOf(8) + endOfService}},
			ids:  []int64{7, 8}, since: []string{"", "7", "7", "7"}, broken: 3, err: "it is gone",
		},
		{
			name: "told to come back later at once", list: []stream{{status: 429, retry: "15"}}, since: []string{""}, err: "429",
		},
		{
			name: "a last word that passes",
			list: []stream{{text: eventOf(7) + strings.Replace(endOfService, "not_found", "unavailable", 1)}, {text: endOfService}},
			ids:  []int64{7}, since: []string{"", "7"}, broken: 1, err: "it is gone",
		},
		{
			name: "nobody there", list: []stream{{status: -1}}, since: []string{"", "", "", ""}, broken: 3, err: "connection refused",
		},
		{
			name: "not a stream", list: []stream{{status: 200, media: "application/json", text: "{}"}}, since: []string{""}, err: "200 internal",
		},
		{
			name: "not allowed any more",
			list: []stream{{text: eventOf(7), after: breaks}, {status: 401}}, ids: []int64{7}, since: []string{"", "7"}, broken: 1, err: "401",
		},
		{
			name: "silence",
			list: []stream{{text: eventOf(7) + ": ping\n\n", after: stands}, {text: endOfService}}, ids: []int64{7}, since: []string{"", "7"}, broken: 1, err: "it is gone",
		},
		{
			name: "enough", list: []stream{{text: strings.Repeat(eventOf(7), 11)}}, ids: []int64{7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, since: []string{""}, err: "enough",
		},
		{
			name: "an older id does not take it back",
			list: []stream{{text: eventOf(7) + eventOf(5), after: breaks}, {text: endOfService}}, ids: []int64{7, 5}, since: []string{"", "7"}, broken: 1, err: "it is gone",
		},
		{
			name: "events of a newer API, several lines, and a carriage return",
			list: []stream{{text: "event: other\ndata: x\n\nretry: 5\n\n" + "event:replicas\r\nid:3\r\ndata:{\"group_id\":\"g\",\r\ndata:\"revision\":3}\r\n\r\n" + endOfService}},
			ids:  []int64{3}, since: []string{""}, err: "it is gone",
		},
		{
			name: "an id that is none", list: []stream{{text: "event: replicas\nid: x\ndata: {}\n\n"}, {text: endOfService}}, since: []string{"", ""}, broken: 1, err: "it is gone",
		},
		{
			name: "data that is none", list: []stream{{text: "event: replicas\nid: 1\ndata: [\n\n"}}, since: []string{""}, err: "not what this client knows",
		},
		{
			name: "an end without a reason", list: []stream{{text: "event: end\ndata: {}\n\n"}}, since: []string{""}, err: "without a reason",
		},
		{
			name: "a line that is too large", list: []stream{{text: "event: replicas\ndata: " + strings.Repeat("x", 5<<20)}}, since: []string{""}, err: "larger than",
		},
		{
			name: "lines that are too many", list: []stream{{text: "event: replicas\n" + strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 5)}}, since: []string{""}, err: "larger than",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &streams{list: tt.list}
				got := follow(t, s, tt.opts)
				if diff := gocmp.Diff(tt.ids, got.ids); diff != "" {
					t.Errorf("ids: %s", diff)
				}
				if diff := gocmp.Diff(tt.since, s.since); diff != "" {
					t.Errorf("Last-Event-ID: %s", diff)
				}
				if got.err == nil || !strings.Contains(got.err.Error(), tt.err) || len(got.broken) != tt.broken {
					t.Errorf("ended with %v, broken %q", got.err, got.broken)
				}
				want := "/system/replicas/a%2Fb?watch=true"
				if tt.opts.ClusterID != "" {
					want = "/system/replicas/a%2Fb?cluster_id=c&watch=true"
				}
				if s.asked[0] != want {
					t.Errorf("asked for %s", s.asked[0])
				}
			})
		})
	}
}

// The pauses before a new connection grow, and begin short again after a connection.
func TestWatchPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []stream{{text: eventOf(7), after: breaks}}
		for range 30 {
			list = append(list, stream{status: 503})
		}
		s := &streams{list: append(list, stream{text: eventOf(8), after: breaks}, stream{text: endOfService})}
		follow(t, s, client.WatchOptions{})
		pause := func(i int) time.Duration { return s.at[i+1].Sub(s.at[i]) }
		first, longest, back := pause(0), pause(30), pause(31)
		if first <= 0 || first > time.Second || longest < 5*time.Second || longest > 15*time.Second || back > time.Second {
			t.Errorf("the first pause is %v, the longest %v, the one after an event %v", first, longest, back)
		}
	})
}

// A watch comes back when it was told to, but not much later than the outage may last.
func TestAWatchComesBackWhenItIsTold(t *testing.T) {
	for retry, want := range map[string]time.Duration{"15": 15 * time.Second, "7200": time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := &streams{list: []stream{{text: eventOf(7), after: breaks}, {status: 429, retry: retry}, {text: endOfService}}}
			follow(t, s, client.WatchOptions{})
			if len(s.at) != 3 || s.at[2].Sub(s.at[1]) != want {
				t.Errorf("told %s s, it came back at %s", retry, s.at)
			}
		})
	}
}

// The caller's own time, however long, is not taken for silence.
func TestWatchWaitsForItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		untouched := func(ctx context.Context) error { return cmp.Or(context.Cause(ctx), io.EOF) }
		s := &streams{list: []stream{{text: eventOf(7), after: untouched}, {text: eventOf(8), after: untouched}, {text: endOfService}}}
		c, err := client.New(client.Config{Endpoint: "http://api.test", Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		opts := client.WatchOptions{Broken: func(err error) { t.Errorf("broken: %v", err) }}
		err = c.WatchReplicas(t.Context(), "a", opts, func(*v1.Replicas, int64) error {
			<-time.After(time.Hour)
			return nil
		})
		if e := asError(t, err); e.Code() != v1.CodeNotFound || len(s.asked) != 3 {
			t.Errorf("%v; asked %d times", err, len(s.asked))
		}
	})
}

// pings is a stream on which nothing happens but pings, for an hour.
type pings struct {
	ctx context.Context
	n   int
}

func (p *pings) Read(b []byte) (int, error) {
	if p.n++; p.n > 120 {
		return copy(b, endOfService), nil
	}
	select {
	case <-time.After(30 * time.Second):
		return copy(b, ": ping\n\n"), nil
	case <-p.ctx.Done():
		return 0, context.Cause(p.ctx)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPingsAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c, err := client.New(client.Config{Endpoint: "http://api.test", Transport: transport(func(r *http.Request) (*http.Response, error) {
			asked++
			header := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(&pings{ctx: r.Context()}), Request: r}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		err = c.WatchReplicas(t.Context(), "a", client.WatchOptions{}, func(*v1.Replicas, int64) error { return nil })
		if e := asError(t, err); e.Code() != v1.CodeNotFound || asked != 1 {
			t.Errorf("%v; asked %d times", err, asked)
		}
	})
}

// Over a real connection: the end of the context ends the watch and its stream.
func TestWatchEndsWithItsContext(t *testing.T) {
	var over atomic.Bool
	left := make(chan struct{})
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, eventOf(7))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
		over.Store(true)
		close(left)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user has seen it")
	err := c.WatchReplicas(ctx, "a", client.WatchOptions{}, func(*v1.Replicas, int64) error {
		cancel(why)
		return nil
	})
	<-left
	if !errors.Is(err, why) || !over.Load() {
		t.Errorf("ended with %v", err)
	}
}

// A login that has ended is not begun again by asking: a command that waits without a limit would wait for ever.
// An issuer that is away for a while is asked again.
func TestAWatchEndsWithItsLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streams{list: []stream{{text: eventOf(1), after: ends}}}
		over, asked := errors.New("the login is over"), 0
		c, err := client.New(client.Config{Endpoint: "http://example.org", Transport: s, TokenOf: func(context.Context, string) (string, error) {
			switch asked++; {
			case asked == 1, asked == 3:
				return "t", nil
			case asked == 2:
				return "", away{}
			}
			return "", over
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err = c.WatchReplicas(ctx, "s", client.WatchOptions{}, func(*v1.Replicas, int64) error { return nil })
		if !errors.Is(err, over) || asked != 4 {
			t.Errorf("%v, after %d tokens", err, asked)
		}
	})
}

// away is why there is no token at this moment.
type away struct{}

func (away) Error() string   { return "the issuer is away" }
func (away) Temporary() bool { return true }
