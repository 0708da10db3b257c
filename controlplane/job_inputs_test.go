package controlplane

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
)

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
