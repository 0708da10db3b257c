package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	jobID = "0199d0a1-7c00-7000-8000-000000000001"
	// offeredAt is the position of a Job that was offered, and offeredID its id.
	offeredAt = "0199d0a1-7c00-/" + offeredID
	offeredID = "3b1f0d8e-6a21-4c31-9a44-5f0e7c319a44"
	svcToken  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// OSCAR answers 201 without a body; what the job is called is in headers that its
// clients do not know.
func TestSubmitJobAnswersAsOSCARDoes(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	for _, path := range []string{"/job/svc", "/job/svc/"} {
		f.calls = nil
		resp := c.do("POST", path+"?cluster_id=oscar-cluster-a", `{"Records":[]}`, "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "k1")
		if resp.Header.Get("Location") != "/system/jobs/"+jobID || resp.Header.Get("X-Job-ID") != jobID || resp.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("headers: %v", resp.Header)
		}
		want(t, resp, 201, "", "")
		got := f.only(t)
		req := got.args.(jobs.Request)
		if req.RequestID == "" || got.caller.Subject != identity.Admin {
			t.Errorf("asked by %v: %+v", got.caller, req)
		}
		req.RequestID = ""
		if wanted := (jobs.Request{Service: "svc", ClusterID: "oscar-cluster-a", Event: []byte(`{"Records":[]}`), IdempotencyKey: "k1"}); !reflect.DeepEqual(req, wanted) {
			t.Errorf("got %+v, want %+v", req, wanted)
		}
	}
	f.jobs.job = exampleJob()
	f.jobs.job.Replayed = true
	if resp := c.do("POST", "/job/svc", ""); resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("headers: %v", resp.Header)
	}
}

// A service sends its own events only: none to another service, nor to one that is not there.
func TestJobsByTheTokenOfAService(t *testing.T) {
	f := &fake{}
	f.jobs.token = svcToken
	c := newClient(t, f)
	want(t, c.do("POST", "/job/svc", "e", "Authorization", "Bearer "+svcToken), 201, "", "")
	got := f.only(t)
	if got.caller != identity.OfService("uid-of-svc") {
		t.Errorf("asked %+v", got)
	}
	f.calls = nil
	refusal := ""
	for what, try := range map[string][2]string{
		"another token":   {"/job/svc", strings.Repeat("f", 64)},
		"another service": {"/job/other", svcToken},
		"no such service": {"/job/nothing-at-all", strings.Repeat("f", 64)},
		"upper case":      {"/job/svc", strings.ToUpper(svcToken)},
		"too short":       {"/job/svc", svcToken[:63]},
	} {
		resp := c.do("POST", try[0], "e", "Authorization", "Bearer "+try[1])
		answer := fmt.Sprint(resp.StatusCode, bodyOf(t, resp), resp.Header.Get("WWW-Authenticate"), len(resp.Header))
		if refusal == "" {
			refusal = answer
		}
		if resp.StatusCode != 401 || answer != refusal {
			t.Errorf("%s: %s, another one: %s", what, answer, refusal)
		}
	}
	// It is accepted on no other route.
	for _, path := range []string{"/system/jobs", "/system/jobs/" + jobID, "/system/services", "/system/services/svc"} {
		if resp := c.do("GET", path, "", "Authorization", "Bearer "+svcToken); resp.StatusCode != 401 {
			t.Errorf("GET %s: %d", path, resp.StatusCode)
		}
	}
	if f.count() != 0 {
		t.Errorf("asked %+v", f.calls)
	}
}

// A service may ask for its own replicas, and changes nothing.
func TestAServicesTokenReadsItsReplicas(t *testing.T) {
	f := &fake{}
	f.jobs.token = svcToken
	c := newClient(t, f)
	for method, wanted := range map[string]bool{"GET": true, "POST": false, "PUT": false, "DELETE": false} {
		resp := c.do(method, "/system/replicas/svc", `{"replicas":[]}`, "Authorization", "Bearer "+svcToken)
		if (resp.StatusCode != 401) != wanted {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
	for _, path := range []string{"/system/replicas/svc/history", "/system/federations", "/system/services/svc"} {
		if resp := c.do("GET", path, "", "Authorization", "Bearer "+svcToken); resp.StatusCode != 401 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if resp := c.do("GET", "/system/replicas/svc", "", "Authorization", "Bearer "+strings.Repeat("e", 64)); resp.StatusCode != 401 {
		t.Errorf("another token: %d", resp.StatusCode)
	}
}

// Each service has its own rate limit, and guessed tokens are limited.
func TestTheRateLimitOfServiceTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.jobs.token = svcToken
		c := newClient(t, f, limited(3))
		for range 3 {
			if resp := c.do("POST", "/job/svc", "e", "Authorization", "Bearer "+svcToken); resp.StatusCode != 201 {
				t.Errorf("answered %d", resp.StatusCode)
			}
		}
		if resp := c.do("POST", "/job/svc", "e", "Authorization", "Bearer "+svcToken); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("answered %d %v", resp.StatusCode, resp.Header)
		}
		if resp := c.do("POST", "/job/svc", "e"); resp.StatusCode != 201 {
			t.Errorf("the administrator: %d", resp.StatusCode)
		}
		<-time.After(3 * time.Second)
		for i := range 4 {
			wanted := map[bool]int{true: 401, false: 429}[i < 3]
			if resp := c.do("POST", "/job/svc", "e", "Authorization", "Bearer "+strings.Repeat("e", 64)); resp.StatusCode != wanted {
				t.Errorf("guess %d: %d", i, resp.StatusCode)
			}
		}
	})
}

func TestSubmitJobRefusals(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	resp := c.do("POST", "/job/svc", strings.Repeat("x", oscar.MaxEventBytes+1))
	want(t, resp, 413, text, "the body is larger than the limit of 98304 bytes")
	if f.count() != 0 {
		t.Errorf("asked %+v", f.calls)
	}
	want(t, c.do("POST", "/job/svc", strings.Repeat("x", oscar.MaxEventBytes)), 201, "", "")
	if resp := c.do("POST", "/job/svc", "e", "Idempotency-Key", "ä"); resp.StatusCode != 400 {
		t.Errorf("a key that is none: %d", resp.StatusCode)
	}
	for code, wanted := range map[fault.Code]struct {
		status int
		body   string
	}{
		fault.CodeNotFound:           {404, ""},
		fault.CodeUnauthenticated:    {401, ""},
		fault.CodeInvalid:            {400, "m"},
		fault.CodeFailedPrecondition: {422, "m"},
		fault.CodeExhausted:          {429, "m"},
		fault.CodeUnavailable:        {503, "m"},
	} {
		f.err = &fault.Error{Code: code, Message: "m", RetryAfter: 5 * time.Second}
		resp := c.do("POST", "/job/svc", "e")
		if body := bodyOf(t, resp); resp.StatusCode != wanted.status || body != wanted.body {
			t.Errorf("%s: %d %q", code, resp.StatusCode, body)
		}
		if wanted.status == 429 || wanted.status == 503 {
			if got := resp.Header.Get("Retry-After"); got != "5" {
				t.Errorf("%s: Retry-After %q", code, got)
			}
		}
	}
	f.err = &fault.Error{Code: fault.CodeConflict, Message: "m", Candidates: []string{"a", "b"}}
	want(t, c.do("POST", "/job/svc", "e"), 409, text, "m\na\nb")
	f.err = &fault.Error{Code: fault.CodeUnknownOutcome, Message: "m", Location: "/system/jobs/j"}
	if resp := c.do("POST", "/job/svc", "e"); resp.StatusCode != 504 || resp.Header.Get("Location") != "/system/jobs/j" {
		t.Errorf("answered %d %v", resp.StatusCode, resp.Header)
	}
}

func TestJob(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	want(t, c.do("GET", "/system/jobs/"+jobID+"/", ""), 200, jsonType, contractJob)
	if got := f.only(t); got.name != "Job "+jobID {
		t.Errorf("asked %+v", got)
	}
	f.err = &fault.Error{Code: fault.CodeNotFound, Message: "m"}
	if p := problemOf(t, c.do("GET", "/system/jobs/x", "")); p.Status != 404 {
		t.Errorf("got %+v", p)
	}
}

// A caller who may see a job does not thereby see the subjects who sent and cancelled it.
func TestWhoSentAJobIsForHimAndTheOwner(t *testing.T) {
	f := &fake{}
	c := newClient(t, f, byHeader)
	for caller, shown := range map[string]bool{"ann": true, "bob": true, "carol": false} {
		var j v1.Job
		if err := json.Unmarshal([]byte(bodyOf(t, c.do("GET", "/system/jobs/"+jobID, "", "X-Caller", caller))), &j); err != nil {
			t.Fatal(err)
		}
		if (j.By == "bob") != shown || (j.CancelledBy == "bob") != shown || !j.Cancelled {
			t.Errorf("%s sees %q, %q, %v", caller, j.By, j.CancelledBy, j.Cancelled)
		}
	}
}

// Pages are gone through by a cursor that says nothing to its bearer.
func TestJobsInPages(t *testing.T) {
	f := &fake{}
	f.jobs.list, f.jobs.more = []jobs.Job{*exampleJob()}, true
	f.jobs.counts = map[jobs.State]int{record.JobRunning: 2, record.JobParked: 1}
	c := newClient(t, f)
	resp := c.do("GET", "/system/jobs?service=s&cluster_id=c&group_id=g&state=running&state=parked&limit=7&counts=true&since=2026-11-20T13:00:00%2B01:00&until=2026-11-20T12:00:00.5Z", "")
	var page v1.Jobs
	if err := json.Unmarshal([]byte(bodyOf(t, resp)), &page); err != nil || len(page.Jobs) != 1 || page.Next == "" || strings.Contains(page.Next, jobID) {
		t.Fatalf("answered %d %+v, %v", resp.StatusCode, page, err)
	}
	if want := map[string]int{"running": 2, "parked": 1}; !reflect.DeepEqual(page.Counts, want) {
		t.Errorf("counts %v", page.Counts)
	}
	q := jobs.Query{Federation: "g", Service: "s", ClusterID: "c", States: []jobs.State{"running", "parked"}, Limit: 7}
	asked, ok := f.calls[0].args.(jobs.Query)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if !ok || !asked.Since.Equal(noon) || !asked.Until.Equal(noon.Add(time.Second/2)) {
		t.Errorf("asked %+v", asked)
	}
	asked.Since, asked.Until = time.Time{}, time.Time{}
	if got := asked; !reflect.DeepEqual(got, q) {
		t.Errorf("asked %+v", got)
	}
	f.calls, f.jobs.more, f.jobs.list = nil, false, nil
	want(t, c.do("GET", "/system/jobs?cursor="+page.Next, ""), 200, jsonType, `{"jobs":[]}`)
	if got := f.only(t).args; !reflect.DeepEqual(got, jobs.Query{Before: offeredAt}) {
		t.Errorf("asked %+v", got)
	}
}

func TestJobsRefusals(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	// Older versions made such a cursor of the id of an offered Job, which says nothing about its place.
	idOnly := base64.RawURLEncoding.EncodeToString([]byte("j1." + offeredID))
	for query, path := range map[string]string{
		"cursor=" + idOnly: "?cursor",
		"limit=0":          "?limit", "limit=1001": "?limit", "limit=x": "?limit", "state=lost": "?state", "state=": "?state", "cursor=!": "?cursor",
		"cursor=ajEu": "?cursor", "cursor=MTIzNDU2": "?cursor", "watch=yes": "?watch", "counts=1": "?counts",
		"since=yesterday": "?since", "until=2026-11-20": "?until", "since=2026-11-20T12:00:00Z&until=2026-11-20T12:00:00Z": "?until",
		"watch=true&limit=3": "?watch", "watch=true&cursor=" + base64.RawURLEncoding.EncodeToString([]byte("j1."+jobID)): "?watch", "watch=true&counts=true": "?watch",
	} {
		if p := problemOf(t, c.do("GET", "/system/jobs?"+query, "")); p.Status != 400 || len(p.Violations) != 1 || p.Violations[0].Path != path {
			t.Errorf("%s: %+v", query, p)
		}
	}
	if f.count() != 0 {
		t.Errorf("asked %+v", f.calls)
	}
}

func TestExplainJob(t *testing.T) {
	f := &fake{}
	f.jobs.decisions = []jobs.Explanation{exampleDecision()}
	want(t, newClient(t, f).do("GET", "/system/jobs/"+jobID+"/explain", ""), 200, jsonType,
		`{"job":`+contractJob+`,"decisions":[{"attempt":2,"at":"2026-11-20T13:04:06.100Z","policy":"load-based","chosen":"oscar-cluster-b/grayifyr1",`+
			`"order":["oscar-cluster-b/grayifyr1"],"members":[{"place":"oscar-cluster-a/grayifyr0","why":"NoRoom","message":"no node has room"},`+
			`{"place":"oscar-cluster-b/grayifyr1","why":"Chosen","message":"the most free CPU","score":12.5}],`+
			`"snapshot":{"policy":"load-based","request":{"cpu":0,"memory":0},"candidates":[]}}]}`)
}

func TestOrdersAboutJobs(t *testing.T) {
	f := &fake{}
	c := newClient(t, f)
	for path, wanted := range map[string]struct {
		body   string
		status int
		call   string
	}{
		"cancel":  {"", 202, "CancelJob "},
		"replay":  {"", 200, "ReplayJob "},
		"resolve": {`{"state":"vanished"}`, 200, "ResolveJob "},
	} {
		f.calls = nil
		want(t, c.do("POST", "/system/jobs/"+jobID+"/"+path, wanted.body), wanted.status, jsonType, contractJob)
		if got := f.only(t); got.name != wanted.call+jobID || path == "resolve" && got.args != record.JobVanished {
			t.Errorf("asked %+v", got)
		}
	}
	f.jobs.job = exampleJob()
	f.jobs.job.State = record.JobCancelled
	if resp := c.do("POST", "/system/jobs/"+jobID+"/cancel", ""); resp.StatusCode != 200 {
		t.Errorf("what is cancelled: %d", resp.StatusCode)
	}
	f.calls = nil
	for _, body := range []string{"", "{}", `{"state":"succeeded"}`, `{"state":7}`, `[]`} {
		if resp := c.do("POST", "/system/jobs/"+jobID+"/resolve", body); resp.StatusCode != 400 {
			t.Errorf("%q: %d", body, resp.StatusCode)
		}
	}
	if f.count() != 0 {
		t.Errorf("asked %+v", f.calls)
	}
	f.err = &fault.Error{Code: fault.CodeUnknownOutcome, Message: "m"}
	if resp := c.do("POST", "/system/jobs/"+jobID+"/cancel", ""); resp.StatusCode != 504 || resp.Header.Get("Location") != "/system/jobs/"+jobID {
		t.Errorf("answered %d %v", resp.StatusCode, resp.Header)
	}
}

// TestAnOrderThatIsNotTheSameTwiceTakesAKey: a replay, and a rotation of tokens.
func TestAnOrderThatIsNotTheSameTwiceTakesAKey(t *testing.T) {
	f := &fake{replicas: func() *view.Replicas { return &changed().Replicas }}
	c := newClient(t, f)
	replay := "/system/jobs/" + jobID + "/replay"
	want(t, c.do("POST", replay, "", "Idempotency-Key", "k"), 200, jsonType, contractJob)
	if got, keyed := f.only(t).args.(request.Repeat); !keyed || got.Key != "k" || got.Path != replay || got.Method != "POST" {
		t.Errorf("it is told again by %+v", got)
	}
	if resp := c.do("POST", "/system/replicas/svc/rotate-token", "", "Idempotency-Key", "k"); resp.StatusCode != 200 || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a rotation: %d %v", resp.StatusCode, resp.Header)
	}
	f.calls = nil
	for _, path := range []string{replay, "/system/replicas/svc/rotate-token"} {
		if resp := c.do("POST", path, "", "Idempotency-Key", "ß"); resp.StatusCode != 400 || f.count() != 0 {
			t.Errorf("%s with a key of other characters: %d", path, resp.StatusCode)
		}
	}
	f.jobs.job = exampleJob()
	f.jobs.job.Replayed = true
	if resp := c.do("POST", replay, "", "Idempotency-Key", "k"); resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same replay: %v", resp.Header)
	}
}

// Both watches are streams as that of replicas is.
func TestWatchJobs(t *testing.T) {
	for _, path := range []string{"/system/jobs/" + jobID + "?watch=true", "/system/jobs/?watch=true&state=running"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				next, since := make(chan any), make(chan int64, 1)
				f.jobs.watch = func(ctx context.Context, from int64, fn func(*jobs.Job) error) error {
					since <- from
					for {
						select {
						case v := <-next:
							if err, ok := v.(error); ok {
								return err
							}
							if err := fn(v.(*jobs.Job)); err != nil {
								return err
							}
						case <-ctx.Done():
							return context.Cause(ctx)
						}
					}
				}
				bounded := false
				f.before = func(ctx context.Context) {
					if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 30*time.Minute {
						bounded = strings.HasPrefix(f.calls[len(f.calls)-1].name, "Watch")
					}
				}
				checker, err := description()
				if err != nil {
					t.Fatal(err)
				}
				c := watchIn(t, checker.Handler(t, newServer(t, f).Handler()), path, "Last-Event-ID", "4712")
				if c.status != http.StatusOK || c.header.Get("Content-Type") != "text/event-stream" {
					t.Fatalf("answered %d %v", c.status, c.header)
				}
				if got := <-since; got != 4712 {
					t.Errorf("since %d", got)
				}
				next <- exampleJob()
				c.want("event: job\nid: 4713\ndata: " + contractJob + "\n\n")
				<-time.After(15 * time.Second)
				c.want(": ping\n\n")
				next <- &fault.Error{Code: fault.CodeNotFound, Message: "it is forgotten"}
				if got := c.got(); !strings.HasPrefix(got, "event: end\ndata: {") || !strings.Contains(got, "it is forgotten") || !c.ended() {
					t.Errorf("got %s", got)
				}
				if bounded {
					t.Error("the watch has the deadline of a request")
				}
			})
		})
	}
}
