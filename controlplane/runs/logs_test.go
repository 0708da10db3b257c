package runs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// body breaks off when its request ends, as one of a stream does.
type body struct {
	io.Reader
	request context.Context
	closed  chan<- string
	member  string
}

func (b body) Read(p []byte) (int, error) {
	if err := b.request.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

func (b body) Close() error {
	b.closed <- b.member
	return nil
}

func targets(clusters ...string) (out []target) {
	for _, id := range clusters {
		out = append(out, target{Replica: relay.Replica{Cluster: id, UID: "uid of " + id}})
	}
	return out
}

func ok(r reply) bool { return r.resp.StatusCode == http.StatusOK }

// TestALogThatTwoMembersAnswerBreaksOff: each of them ended the request of the other, and
// so did one that answers 200 to whatever it is asked.
func TestALogThatTwoMembersAnswerBreaksOff(t *testing.T) {
	closed := make(chan string, 3)
	replies := everywhere(t.Context(), targets("a", "b", "c"), func(ctx context.Context, t target) (*http.Response, error) {
		status := http.StatusOK
		if t.Cluster == "c" {
			status = http.StatusNotFound
		}
		return &http.Response{StatusCode: status, Body: body{strings.NewReader("log"), ctx, closed, t.Cluster}}, nil
	}, ok)
	var logs []string
	for _, r := range replies {
		if r.err != nil {
			t.Errorf("%s: %v", r.Cluster, r.err)
			continue
		}
		if ok(r) {
			text, err := io.ReadAll(r.resp.Body)
			if err != nil {
				t.Errorf("the log of %s: %v", r.Cluster, err)
			}
			logs = append(logs, string(text))
		}
		if err := r.resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(logs, []string{"log"}) {
		t.Errorf("there are the logs %q", logs)
	}
	if got := map[string]bool{<-closed: true, <-closed: true, <-closed: true}; len(got) != 3 {
		t.Errorf("closed are the bodies of %v only", got)
	}
}

// TestAMemberBehindACutLinkHoldsOSCARsClientsUp: oscar-cli gives up after 20 s, and
// shows nothing of the members that have answered long ago.
func TestAMemberBehindACutLinkHoldsOSCARsClientsUp(t *testing.T) {
	const oscarCLI = 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var clusters []string // more than are asked at once
		for range 2 * membersAtOnce {
			clusters = append(clusters, "cut"+string(rune('a'+len(clusters))))
		}
		closed := make(chan string, 1)
		replies := everywhere(t.Context(), targets(append(clusters, "a")...), func(ctx context.Context, t target) (*http.Response, error) {
			if t.Cluster == "a" {
				return &http.Response{StatusCode: http.StatusNoContent, Body: body{strings.NewReader(""), ctx, closed, t.Cluster}}, nil
			}
			<-ctx.Done()
			return nil, &relay.Error{Text: "its stream broke off", Sent: true, Err: ctx.Err()}
		}, func(reply) bool { return false })
		if took := time.Since(began); took >= oscarCLI-3*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(replies) != len(clusters)+1 {
			t.Errorf("%d replies of %d members", len(replies), len(clusters)+1)
		}
		for _, r := range replies {
			if r.Cluster != "a" && (r.err == nil || reasonOf(r.err) != "it has not answered within 16s") {
				t.Errorf("%s: %v", r.Cluster, r.err)
			}
			if r.err == nil {
				_ = r.resp.Body.Close()
			}
		}
	})
}

// A log that comes when its member has just been given up would break off: its request has ended.
func TestALogThatComesTooLateIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan string, 2)
		replies := everywhere(t.Context(), targets("a", "b"), func(ctx context.Context, t target) (*http.Response, error) {
			<-ctx.Done()
			status := http.StatusOK
			if t.Cluster == "b" {
				status = http.StatusNotFound
			}
			return &http.Response{StatusCode: status, Body: body{strings.NewReader("log"), ctx, closed, t.Cluster}}, nil
		}, ok)
		found, missing := logOf(replies)
		if found != nil || !slices.Equal(missing, []string{"a: it has not answered within 16s"}) {
			t.Errorf("found %+v, missing %q", found, missing)
		}
		if got := map[string]bool{<-closed: true, <-closed: true}; len(got) != 2 {
			t.Errorf("closed are the bodies of %v only", got)
		}
	})
}

// TestALeavingMemberHidesAnotherOnesJobs: the place of the next page was an index of the members.
func TestALeavingMemberHidesAnotherOnesJobs(t *testing.T) {
	var clusters []string
	for i := range membersAtOnce + 3 {
		clusters = append(clusters, string(rune('s'-i))) // uids need not be in the order of the members
	}
	jobs := func(_ context.Context, t target, _ string) (memberPage, error) {
		return memberPage{Jobs: map[string]JobInfo{"job of " + t.Cluster: {Status: "Running"}}}, nil
	}
	for _, left := range [][]string{{"s"}, {"a"}, {"d"}, {"a", "d", "s"}} {
		all := targets(clusters...)
		first, _ := jobList(t.Context(), all, logCursor{}, jobs)
		if len(first.Jobs) != membersAtOnce || first.Next == "" {
			t.Fatalf("the first page has %d jobs, and %q follows", len(first.Jobs), first.Next)
		}
		all = slices.DeleteFunc(all, func(t target) bool { return slices.Contains(left, t.Cluster) })
		next, err := readLogCursor(first.Next)
		if err != nil {
			t.Fatal(err)
		}
		second, _ := jobList(t.Context(), all, next, jobs)
		for _, m := range all {
			_, one := first.Jobs["job of "+m.Cluster]
			if _, other := second.Jobs["job of "+m.Cluster]; one == other {
				t.Errorf("%q left: the job of %s is in the first page %t, in the second %t", left, m.Cluster, one, other)
			}
		}
		if second.Next != "" {
			t.Errorf("%q left: %q follows", left, second.Next)
		}
	}
}

// TestAPageWithoutJobsIsNotTheLast: oscar-cli takes a page without Jobs for an answer of another form, and fails.
func TestAPageWithoutJobsIsNotTheLast(t *testing.T) {
	for name, tt := range map[string]struct {
		takes time.Duration
		found bool
	}{"others answer soon": {time.Second, true}, "others answer late": {memberTimeout - fullPage + time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clusters []string
				for i := range 2*membersAtOnce + 1 {
					clusters = append(clusters, fmt.Sprintf("%02d", i))
				}
				last := clusters[2*membersAtOnce]
				list, answered := jobList(t.Context(), targets(clusters...), logCursor{}, func(_ context.Context, t target, _ string) (memberPage, error) {
					<-time.After(tt.takes)
					if t.Cluster == last {
						return memberPage{Jobs: map[string]JobInfo{"job": {Status: "Running"}}}, nil
					}
					return memberPage{}, nil
				})
				if len(list.Jobs) > 0 != tt.found || (list.Next == "") != tt.found || !answered {
					t.Errorf("%d jobs, and %q follows", len(list.Jobs), list.Next)
				}
			})
		})
	}
}

// TestEveryMemberIsAskedForTheLogOfAJobWhosePlaceIsKnown: whoever is asked costs his OSCAR
// a request, and may answer with whatever he likes.
func TestEveryMemberIsAskedForTheLogOfAJobWhosePlaceIsKnown(t *testing.T) {
	const job = "0199d0a1-7c00-7000-8000-000000000001"
	replica := func(cluster, service string) record.Member {
		return record.Member{Type: "oscar", ClusterID: cluster, ServiceName: service, UID: "u"}
	}
	fed := &record.Federation{UID: "f1", Members: []record.Member{replica("a", "s0"), replica("b", "s1"), replica("c", "s2"), {Type: "endpoint", URL: "https://e"}}}
	past := func(attempt int, cluster, place string) record.Attempt {
		return record.Attempt{Attempt: attempt, ClusterID: cluster, Place: place}
	}
	j := &record.Job{Job: job, Federation: "f1", Cluster: "a", Service: "s0", Attempt: 4, Place: &record.Place{ClusterID: "b", ServiceName: "s1"},
		Past: []record.Attempt{past(1, "gone", "gone/s9"), past(2, "", "https://e"), past(3, "c", "c/s2"), past(3, "a", "a/s0")}}
	jobs := map[string]view.Versioned[record.Job]{job: {Rec: j}}
	kept := func(id string) view.Versioned[record.Job] { return jobs[id] }
	for _, tt := range []struct {
		name  string
		fed   string
		at    string
		known bool
	}{
		{record.JobName("s0", job, 4), "f1", "b", true},
		{record.JobName("s0", job, 3), "f1", "a c", true}, // given twice, by two histories of the store
		{record.JobName("s0", job, 2), "f1", "", true},
		{record.JobName("s0", job, 1), "f1", "", true},
		{record.JobName("s0", job, 5), "f1", "", false},
		{record.JobName("s0", job, 4), "f2", "", false},
		{record.JobName("s0", strings.Replace(job, "1", "2", 1), 4), "f1", "", false},
		{"s0-abcde", "f1", "", false},
		{"", "f1", "", false},
	} {
		of := *fed
		of.UID = tt.fed
		at, known := attemptAt(kept, &of, tt.name)
		var got []string
		for _, m := range at {
			got = append(got, m.ClusterID)
		}
		if strings.Join(got, " ") != tt.at || known != tt.known {
			t.Errorf("%s of %s is at %v, %t", tt.name, tt.fed, got, known)
		}
	}
}
