package oscarsim

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

const noRefreshToken = "refresh_token secret is required for federated services"

// federation answers topology and members of a service.
func (s *Sim) federation(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e, err := s.kube.read("", c.service)
	if err != nil {
		c.code(http.StatusNotFound)
		return
	}
	answer := wire.FederationResponse{Topology: "none"}
	if f := e.service.Federation; f != nil {
		answer.Topology = cmp.Or(f.Topology, "none")
		if len(f.Members) > 0 {
			answer.Members = f.Members
		}
	}
	c.json(http.StatusOK, answer)
}

// probe asks each OSCAR member whether it accepts the caller. None can be reached.
func probe(svc *wire.Service) []error {
	var errs []error
	for _, m := range svc.Federation.Members {
		if !strings.EqualFold(m.Type, "oscar") {
			continue
		}
		cluster, ok := svc.Clusters[m.ClusterID]
		if !ok {
			errs = append(errs, fmt.Errorf("cluster %q not defined", m.ClusterID))
			continue
		}
		url := strings.TrimSuffix(cluster.Endpoint, "/") + "/system/services/" + m.ServiceName
		errs = append(errs, fmt.Errorf("auth check failed for cluster %q: %w", cluster.Endpoint, refused("Get", url)))
	}
	return errs
}

// expand sends the definition to each member. None can be reached.
func expand(svc *wire.Service) []error {
	var errs []error
	for _, m := range svc.Federation.Members {
		cluster, ok := svc.Clusters[m.ClusterID]
		if !ok {
			errs = append(errs, fmt.Errorf("cluster %q not defined", m.ClusterID))
			continue
		}
		url := strings.TrimSuffix(cluster.Endpoint, "/") + "/system/services"
		errs = append(errs, fmt.Errorf("request failed: %w", refused("Put", url)))
	}
	return errs
}
