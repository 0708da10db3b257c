package jobs

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/store/record"
)

// A job that OSCAR would have to start for the token of a user whom it calls otherwise than
// his service's owner is not sent there; the events of buckets are.
func TestAJobThatOSCARWouldNotStartForItsOwner(t *testing.T) {
	members := []record.Member{
		{ClusterID: "a", ServiceName: "s", UID: "1", Coordinator: true}, {ClusterID: "b", ServiceName: "s", UID: "2"}, {ClusterID: "c", ServiceName: "s", UID: "3"},
	}
	fl := &Candidates{fed: &record.Federation{}, reads: true, Members: members, desired: make([]int64, 3),
		storage: []memberStorage{{cluster: "a", at: "a"}, {cluster: "a", at: "b"}, {cluster: "c", at: "c"}}}
	for _, m := range members {
		fl.snapshot.Candidates = append(fl.snapshot.Candidates, delegation.Candidate{Cluster: m.ClusterID, Service: m.ServiceName})
	}
	for _, c := range []struct {
		byOwner, bucket bool
		want            string
	}{
		{false, false, "a c"}, {true, false, "a b c"}, {false, true, "a b"}, {true, true, "a b"},
	} {
		fl.byOwner = c.byOwner
		var can []string
		for _, x := range fl.SnapshotFor(&record.Job{Cluster: "a", Service: "s", BucketEvent: c.bucket}, nil).Candidates {
			if x.Inputs == delegation.InputsReadable {
				can = append(can, x.Cluster)
			} else if x.InputsWhy == "" {
				t.Errorf("%+v: nobody says why not at %s", c, x.Cluster)
			}
		}
		if got := strings.Join(can, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
	}
}

// TestWhereAnEventOfABucketIsRead: the object is where the job came in, which is the
// origin's MinIO or, at a worker with storage of its own, that worker's.
func TestWhereAnEventOfABucketIsRead(t *testing.T) {
	var (
		origin  = memberStorage{cluster: "a", at: "a"}
		sharing = memberStorage{cluster: "a", at: "b"}
		broken  = memberStorage{cluster: "a", at: "b", broken: "the MinIO of a cannot be used from there: no answer"}
		own     = memberStorage{cluster: "c", at: "c"}
		beside  = memberStorage{cluster: "a", at: "a"} // a worker on the coordinator's cluster
		gone    memberStorage
	)
	const yes, no, unknown = delegation.InputsReadable, delegation.InputsUnreadable, delegation.InputsUnknown
	for name, c := range map[string]struct {
		bucket      bool
		entry, here memberStorage
		want        delegation.Inputs
		why         string
	}{
		"at the coordinator, by itself":              {true, origin, origin, yes, ""},
		"at the coordinator, by a worker that can":   {true, origin, sharing, yes, ""},
		"at the coordinator, by one that cannot":     {true, origin, broken, no, "no answer"},
		"at the coordinator, by one with its own":    {true, origin, own, no, "it reads the MinIO of its own cluster, and the event names an object in that of a"},
		"at the coordinator, by one beside it":       {true, origin, beside, yes, ""},
		"at a worker that shares, by it":             {true, sharing, sharing, yes, ""},
		"at a worker that shares, by the origin":     {true, sharing, origin, yes, ""},
		"at a worker that shares, by one of its own": {true, sharing, own, no, "its own cluster"},
		"at a worker with its own, by it":            {true, own, own, yes, ""},
		"at a worker with its own, by the origin":    {true, own, origin, no, "it reads the MinIO of its own cluster, and the event names an object in that of c"},
		"at a worker with its own, by one that can":  {true, own, sharing, no, "it reads the MinIO of a, and the event names an object in that of c"},
		"at one that cannot, by it":                  {true, broken, broken, no, "no answer"},
		"at one that cannot, by the origin":          {true, broken, origin, yes, ""},
		"at a place that is gone":                    {true, gone, origin, unknown, "no member any more"},
		"no bucket, by the coordinator":              {false, origin, origin, yes, ""},
		"no bucket, by one with its own":             {false, origin, own, yes, ""},
		"no bucket, by one that shares":              {false, own, sharing, yes, ""},
		"no bucket, by one that cannot":              {false, origin, broken, no, "no answer"},
		"no bucket, at a place that is gone":         {false, gone, own, yes, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := readBy(c.bucket, c.entry)(c.here)
			if got != c.want || !strings.Contains(why, c.why) || (why == "") != (got == yes) {
				t.Errorf("%q, %q; want %q, %q", got, why, c.want, c.why)
			}
		})
	}
}
