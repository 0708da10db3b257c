package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// event has all that the job needs: one of a bucket would run where its object is.
const event = `{"photo":"https://example.org/photo.jpg"}`

// ended is a job as `oscarfed job get --output json` prints it.
type ended struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Place struct {
		ClusterID   string `json:"cluster_id"`
		ServiceName string `json:"service_name"`
		JobName     string `json:"job_name"`
	} `json:"place"`
}

// job submits one, waits for its end, and looks for it on the OSCAR that it was sent to,
// and on the others.
func (s *story) job(ctx context.Context) error {
	s.heading("a job runs on the cluster that the policy picks, once")
	path := filepath.Join(s.fed.dir, "event.json")
	if err := os.WriteFile(path, []byte(event), 0o600); err != nil {
		return err
	}
	started := time.Now()
	shown, err := s.cli(ctx, 0, "job", "submit", group, "-f", path, "--wait")
	if err != nil {
		return err
	}
	s.ran = time.Since(started)
	first := strings.Fields(shown.stdout)
	if len(first) < 2 {
		return fmt.Errorf("job submit printed %q", shown.stdout)
	}
	a, err := s.fed.oscarfed(ctx, "job", "get", first[1], "--output", "json")
	if err != nil {
		return err
	}
	var j ended
	if err := json.Unmarshal([]byte(a.stdout), &j); err != nil {
		return fmt.Errorf("job get %s: %w: %s", first[1], err, a.stderr)
	}
	if err := s.check(j.State == "succeeded", "it has succeeded after %s", round(s.ran)); err != nil {
		return err
	}
	why, err := s.cli(ctx, 0, "explain", "job", j.ID)
	if err != nil {
		return err
	}
	chosen := slices.ContainsFunc(strings.Split(why.stdout, "\n"), func(line string) bool {
		fields := strings.Fields(line)
		return len(fields) > 1 && fields[0] == j.Place.ClusterID+"/"+j.Place.ServiceName && fields[1] == "yes"
	})
	if err := s.check(chosen, "it ran where the record of the decision says"); err != nil {
		return err
	}
	for i, n := range s.fed.Clusters {
		list, err := n.want(ctx, http.StatusOK, http.MethodGet, "/system/logs/"+replica(i), "")
		if err != nil {
			return err
		}
		times, want, text := strings.Count(string(list), j.ID), 0, "has no Job of it"
		if n.ClusterID == j.Place.ClusterID {
			want, text = 1, "has run it once, as "+j.Place.JobName
		}
		if err := s.check(times == want, "%s %s", n.ClusterID, text); err != nil {
			return err
		}
	}
	return nil
}
