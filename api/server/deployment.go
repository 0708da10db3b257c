package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

const deploymentRoute = "/system/services/{service}/deployment"

// kindUnavailable is OSCAR's word where no Deployment of Kubernetes is meant, which is so
// of a service that several clusters have.
const kindUnavailable = "unavailable"

// getDeployment answers GET /system/services/{service}/deployment: for the coordinator's
// name how its federation stands, for another member's how that one does.
func (s *Server) getDeployment(w http.ResponseWriter, r *http.Request) error {
	view, err := s.deploymentOf(r)
	if err != nil {
		return err
	}
	return respond.OSCAR(w, v1.Deployment{ServiceName: view.Members[view.Self].ServiceName, DeploymentSummary: summaryIn(view)})
}

// getDeploymentLogs answers GET /system/services/{service}/deployment/logs as an OSCAR
// does that has none to show.
func (s *Server) getDeploymentLogs(w http.ResponseWriter, r *http.Request) error {
	view, err := s.deploymentOf(r)
	if err != nil {
		return err
	}
	return respond.OSCAR(w, v1.DeploymentLogs{
		ServiceName: view.Members[view.Self].ServiceName,
		Message:     "The control plane reads no log of a deployment; the OSCAR of the cluster does. Those of jobs are at /system/logs/" + view.Members[view.Self].ServiceName + ".",
		Entries:     []v1.DeploymentLogEntry{},
	})
}

func (s *Server) deploymentOf(r *http.Request) (*view.Replicas, error) {
	service := pathParam(r, "service")
	shown, err := s.cp.Federations.Replicas(r.Context(), respond.StateOf(r).Caller, service, r.URL.Query().Get("cluster_id"))
	if err == nil && shown.Phase.Result() {
		err = view.NoService(service, shown.Phase)
	}
	return shown, err
}

// wantsDeployment says whether a service is to tell how it stands: ?include=deployment, in capitals and with blanks as OSCAR
// takes it.
func wantsDeployment(r *http.Request) bool {
	return slices.ContainsFunc(r.URL.Query()["include"], func(list string) bool {
		return slices.ContainsFunc(strings.Split(list, ","), func(word string) bool {
			return strings.EqualFold(strings.TrimSpace(word), "deployment")
		})
	})
}

func summaryIn(shown *view.Replicas) v1.DeploymentSummary {
	return summaryOf(view.DeploymentOf(shown.Members, shown.Self))
}

// summaryOf is a deployment on the wire.
func summaryOf(d view.Deployment) v1.DeploymentSummary {
	out := v1.DeploymentSummary{
		State: d.State, Reason: d.Reason, ActiveInstances: d.Ready, AffectedInstances: d.Others, ResourceKind: kindUnavailable,
	}
	if !d.LastTransitionTime.IsZero() {
		out.LastTransitionTime = &v1.Time{Time: d.LastTransitionTime}
	}
	return out
}
