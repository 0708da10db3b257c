package oscarsim

import (
	"fmt"
	"net/http"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// restart answers POST /system/services/:service/restart. There are no pods to restart: the journal
// says that it was asked for.
func (s *Sim) restart(c *call) { s.manage(c, func(*entry) {}) }

// stop answers POST /system/services/:service/stop: the Deployment is scaled to zero and its autoscaler deleted.
func (s *Sim) stop(c *call) { s.manage(c, func(e *entry) { e.halted, e.unscaled = true, true }) }

// start answers POST /system/services/:service/start, which makes the autoscaler again.
func (s *Sim) start(c *call) { s.manage(c, func(e *entry) { e.halted, e.unscaled = false, false }) }

// manage changes the Deployment of an exposed service and answers how it stands then.
func (s *Sim) manage(c *call, change func(*entry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e := s.kube.find(c.params[0])
	switch {
	case e == nil:
		c.code(http.StatusNotFound)
	case !c.mayWrite(e.service):
		c.text(http.StatusForbidden, fmt.Sprintf("User %s doesn't have permission to manage this service", c.user.Subject))
	case len(e.service.Expose.APIPort) == 0:
		c.text(http.StatusBadRequest, fmt.Sprintf("service %q is not exposed", c.params[0]))
	default:
		change(e)
		c.json(http.StatusOK, s.deploymentStatus(e.service))
	}
}

// deploymentStatus is the answer of OSCAR's routes about the deployment of a service.
type deploymentStatus struct {
	Service   string `json:"service_name"`
	Namespace string `json:"namespace"`
	wire.DeploymentSummary
}

// deploymentStatus says how a service stands. The caller holds the lock.
func (s *Sim) deploymentStatus(svc *wire.Service) deploymentStatus {
	return deploymentStatus{svc.Name, svc.Namespace, s.summary(svc)}
}

// summary says how a service stands: an exposed one runs at once. The caller holds the lock.
func (s *Sim) summary(svc *wire.Service) wire.DeploymentSummary {
	e := s.kube.services[key{svc.Namespace, svc.Name}]
	if e == nil || !e.exposed() {
		return wire.DeploymentSummary{State: "unavailable", Reason: noRuntime, ResourceKind: "unavailable"}
	}
	out := wire.DeploymentSummary{State: "ready", Reason: "Deployment is ready.", ActiveInstances: max(int(svc.Expose.MinScale), 1), ResourceKind: "exposed_service"}
	if e.halted {
		out.State, out.Reason, out.ActiveInstances = "stopped", "Deployment is stopped.", 0
	}
	return out
}
