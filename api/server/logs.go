package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// JobLogs are the use cases of OSCAR's Jobs on the clusters, and of their output.
type JobLogs interface {
	JobLogs(ctx context.Context, caller identity.Caller, in runs.LogTarget, page string) (*runs.JobList, error)
	JobLog(ctx context.Context, caller identity.Caller, in runs.LogTarget, job string, timestamps bool) (*runs.Answer, error)
	DeleteJobLogs(ctx context.Context, caller identity.Caller, in runs.LogTarget, all bool) (missing []string, err error)
	DeleteJobLog(ctx context.Context, caller identity.Caller, in runs.LogTarget, job string) (missing []string, err error)
}

const (
	logsRoute = "/system/logs/{service}"
	logRoute  = logsRoute + "/{job}"
	// logTimeout bounds the output of a job, and everything else about jobs.
	logTimeout = 90 * time.Second
	// maxMissing bounds it in bytes.
	maxMissing = 4 << 10
)

func logTarget(r *http.Request) runs.LogTarget {
	return runs.LogTarget{Service: pathParam(r, "service"), ClusterID: r.URL.Query().Get("cluster_id")}
}

// oscarFlag reads a parameter as OSCAR does: it takes 1, t, True and such, and what it cannot read is false.
func oscarFlag(r *http.Request, name string) bool {
	yes, err := strconv.ParseBool(r.URL.Query().Get(name))
	return err == nil && yes
}

// tellMissing is never a status: OSCAR's clients take 206 and 207 for failures.
func tellMissing(h http.Header, missing []string) {
	if len(missing) == 0 {
		return
	}
	text := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return ' '
		}
		return c
	}, strings.Join(missing, "; "))
	h.Set(v1.MissingHeader, respond.Cut(text, maxMissing))
}

// managerLog answers GET /system/logs, the log of an OSCAR Manager: there is none here, and users
// are told what OSCAR tells them.
func (s *Server) managerLog(_ http.ResponseWriter, r *http.Request) error {
	if !respond.StateOf(r).Caller.Administrator {
		return respond.Errorf(fault.CodeForbidden, "OIDC tokens are not allowed for system logs")
	}
	return respond.Errorf(fault.CodeNotServed,
		"The control plane has no log of an OSCAR Manager; ask the OSCAR of the cluster itself. The log of a service is at /system/logs/SERVICE")
}

// listLogs answers GET /system/logs/{service}: the jobs of all members, as OSCAR lists its own.
func (s *Server) listLogs(w http.ResponseWriter, r *http.Request) error {
	list, err := s.cp.JobLogs.JobLogs(r.Context(), respond.StateOf(r).Caller, logTarget(r), r.URL.Query().Get("page"))
	if err != nil {
		return err
	}
	out := v1.JobsOfService{Jobs: make(map[string]v1.JobOfService, len(list.Jobs)), NextPage: list.Next, RemainingJobs: list.Remaining}
	for name, job := range list.Jobs {
		out.Jobs[name] = v1.JobOfService{Status: job.Status, CreationTime: job.Created, StartTime: job.Started, FinishTime: job.Finished}
	}
	tellMissing(w.Header(), list.Missing)
	return respond.OSCAR(w, out)
}

// getLog answers GET /system/logs/{service}/{job}.
func (s *Server) getLog(w http.ResponseWriter, r *http.Request) error {
	answer, err := s.cp.JobLogs.JobLog(r.Context(), respond.StateOf(r).Caller, logTarget(r), pathParam(r, "job"), oscarFlag(r, "timestamps"))
	if err != nil {
		return err
	}
	return s.passAnswer(w, r, answer)
}

// deleteLogs answers DELETE /system/logs/{service}.
func (s *Server) deleteLogs(w http.ResponseWriter, r *http.Request) error {
	missing, err := s.cp.JobLogs.DeleteJobLogs(r.Context(), respond.StateOf(r).Caller, logTarget(r), oscarFlag(r, "all"))
	if err != nil {
		return err
	}
	tellMissing(w.Header(), missing)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// deleteLog answers DELETE /system/logs/{service}/{job}.
func (s *Server) deleteLog(w http.ResponseWriter, r *http.Request) error {
	missing, err := s.cp.JobLogs.DeleteJobLog(r.Context(), respond.StateOf(r).Caller, logTarget(r), pathParam(r, "job"))
	if err != nil {
		return err
	}
	tellMissing(w.Header(), missing)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
