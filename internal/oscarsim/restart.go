package oscarsim

import (
	"fmt"
	"net/http"
)

// restart answers POST /system/services/:service/restart. There are no pods to restart: the journal
// says that it was asked for.
func (s *Sim) restart(c *call) {
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
		c.json(http.StatusOK, map[string]any{
			"service_name": c.params[0], "namespace": e.service.Namespace, "state": "pending", "active_instances": 0, "affected_instances": 1,
			"resource_kind": "exposed_service",
		})
	}
}
