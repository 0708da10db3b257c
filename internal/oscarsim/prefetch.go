package oscarsim

import (
	"fmt"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// SetMissingImage says that no node can pull an image. A service with image_prefetch waits for it for ever.
func (s *Sim) SetMissingImage(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing[image] = true
}

// prefetch pulls the image of a service on each node, when it asks for that: OSCAR makes a DaemonSet, waits without an
// end for its pods to run, also when the client has gone, and deletes it. No DELETE of the service deletes one that is
// left, and no second one can be made.
func (s *Sim) prefetch(c *call, svc *wire.Service) error {
	if !svc.ImagePrefetch {
		return nil
	}
	id := key{svc.Namespace, svc.Name}
	s.mu.Lock()
	stands, missing := s.kube.pullers[id], s.missing[svc.Image]
	if missing {
		s.kube.pullers[id] = true
	}
	s.mu.Unlock()
	switch {
	case stands:
		return fmt.Errorf("failed to create daemonset: daemonsets.apps %q already exists", "image-puller-"+svc.Name)
	case missing:
		<-c.life.ctx.Done()
		c.drop()
	}
	return nil
}
