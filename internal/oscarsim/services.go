package oscarsim

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

const notValid = "The service specification is not valid: "

// list answers all services of all namespaces, the half-created ones too.
func (s *Sim) list(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	services := []*wire.Service{}
	for _, e := range s.kube.labelled() {
		if !c.mayRead(e.service) {
			continue
		}
		services = append(services, s.shown(c, e.service))
	}
	if c.partial {
		services = services[:len(services)/2]
	}
	c.json(http.StatusOK, services)
}

// get answers one service. It needs both ConfigMap and PodTemplate.
func (s *Sim) get(c *call) {
	if !validName(c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, e, err := s.kube.read("", c.service); {
	case err != nil:
		c.code(http.StatusNotFound)
	case !c.mayRead(e.service):
		c.forbidden("get")
	default:
		c.json(http.StatusOK, s.shown(c, e.service))
	}
}

func validName(c *call) bool {
	c.service = strings.TrimSpace(c.service)
	switch {
	case c.service == "":
		c.text(http.StatusBadRequest, "serviceName is required")
	case len(validation.IsValidLabelValue(c.service)) > 0:
		c.text(http.StatusBadRequest, "invalid serviceName")
	default:
		return true
	}
	return false
}

// shown adds the state of the volume, and what the query asks for. The caller holds the lock.
func (s *Sim) shown(c *call, svc *wire.Service) *wire.Service {
	if svc.Volume != nil {
		mounted := *svc
		mounted.VolumeStatus = s.kube.volumeStatus(svc)
		svc = &mounted
	}
	for want := range strings.SplitSeq(c.query("include"), ",") {
		if strings.EqualFold(strings.TrimSpace(want), "deployment") {
			full := *svc
			summary := s.summary(svc)
			full.Deployment = &summary
			return &full
		}
	}
	return svc
}

// create makes a service. The order of the checks, and what each refusal leaves behind, is OSCAR's.
func (s *Sim) create(c *call) {
	svc, ok := s.decode(c)
	if !ok {
		return
	}
	if !s.own(c, svc) {
		return
	}
	s.mu.Lock()
	id, ok := s.admit(c, svc)
	if ok {
		s.born(c, svc)
	}
	s.mu.Unlock()
	if !ok {
		return
	}
	// From here on the service is listed; neither its webhook nor its buckets exist.
	if c.crash {
		return
	}
	err := s.prefetch(c, svc)
	switch {
	case c.dropped:
		return
	case err != nil:
		err = fmt.Errorf("Error creating the service: %w", err)
	default:
		err = s.registerWebhook(c, svc)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.kube.deleteService(id)
		c.text(http.StatusInternalServerError, err.Error())
		return
	}
	if c.dropped {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishCreate(c, id, svc)
}

// decode reads a definition and fills in defaults, as POST and PUT both do.
func (s *Sim) decode(c *call) (*wire.Service, bool) {
	svc, err := wire.Decode(c.body)
	if err != nil {
		c.text(http.StatusBadRequest, notValid+err.Error())
		return nil, false
	}
	if err := svc.NormalisePaths(); err != nil {
		c.text(http.StatusBadRequest, err.Error())
		return nil, false
	}
	svc.Defaults(s.provider, newToken)
	if err := svc.NormaliseVolume(); err != nil {
		c.text(http.StatusBadRequest, notValid+err.Error())
		return nil, false
	}
	return svc, true
}

// admit makes the Kubernetes objects of a new service, or answers why not. The caller holds the lock.
func (s *Sim) admit(c *call, svc *wire.Service) (key, bool) {
	if svc.Namespace == "" {
		svc.Namespace = s.cfg.ServicesNamespace
	}
	id := key{svc.Namespace, svc.Name}
	if svc.HasMembers() {
		if strings.TrimSpace(svc.Environment.Secrets["refresh_token"]) == "" {
			c.text(http.StatusBadRequest, noRefreshToken)
			return id, false
		}
		if errs := probe(svc); len(errs) > 0 {
			c.text(http.StatusUnauthorized, fmt.Sprintf("federation auth failed: %v", errs))
			return id, false
		}
	}
	svc.DefaultGroup()
	if len(svc.Environment.Secrets) > 0 {
		if _, exists := s.kube.secrets[id]; exists {
			c.text(http.StatusConflict, "A secret with the given name already exists")
			return id, false
		}
		if err := s.kube.createSecret(id, svc.Environment.Secrets); err != nil {
			c.text(http.StatusConflict, "Error creating secrets for service: "+err.Error())
			return id, false
		}
	}
	if c.crashSecret {
		return id, false
	}
	svc.Labels["owner_name"] = c.ownerName()
	if _, e := s.kube.find(svc.Name); e != nil {
		c.text(http.StatusBadRequest, "A service with the provided name already exists")
		return id, false
	}
	err := s.allowedImage(svc.Image)
	if err == nil {
		err = s.kube.createService(svc)
	}
	switch {
	case errors.Is(err, errVolumeExists):
		c.text(http.StatusConflict, "A managed volume with the provided name already exists")
	case errors.Is(err, errNoVolume):
		c.text(http.StatusBadRequest, "Referenced volume does not exist in the caller namespace")
	case err != nil:
		c.text(http.StatusInternalServerError, "Error creating the service: "+err.Error())
	}
	return id, err == nil
}

// registerWebhook registers a service's webhook and restarts MinIO, which takes the latency.
func (s *Sim) registerWebhook(c *call, svc *wire.Service) error {
	if err := s.reachMinIO(c, "Put", "/minio/admin/v3/set-config-kv"); err != nil {
		return fmt.Errorf("error registering the service's webhook: %w", err)
	}
	if c.dropped {
		return nil
	}
	s.mu.Lock()
	if s.minioAway(c) {
		s.mu.Unlock()
		return fmt.Errorf("error registering the service's webhook: %w", refused("Put", s.provider.Endpoint+"/minio/admin/v3/set-config-kv"))
	}
	s.minio.webhooks[svc.Name] = svc.Token
	c.life.restarting++
	s.mu.Unlock()
	c.pause(c.latency)
	s.mu.Lock()
	s.restarted(c)
	s.mu.Unlock()
	return nil
}

// restarted ends a restart of MinIO. The caller holds the lock.
func (s *Sim) restarted(c *call) {
	c.life.restarting--
	for _, name := range s.minio.revived {
		_, _ = s.minio.makeBucket(name) // one that stands is as it is
	}
	s.minio.revived = nil
}

// minioAway reports whether another call is restarting MinIO and that matters. The caller holds
// the lock.
func (s *Sim) minioAway(c *call) bool { return s.cfg.BreakConcurrent && c.life.restarting > 0 }

// finishCreate makes the buckets of a new service and tags them. The caller holds the lock.
func (s *Sim) finishCreate(c *call, id key, svc *wire.Service) {
	if svc.MeshWorker() {
		c.code(http.StatusCreated)
		return
	}
	buckets, err := s.minio.makeBuckets(svc, s.provider, false)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, errInput) {
			status = http.StatusBadRequest
		}
		c.text(status, err.Error())
		// Jobs and a Secret of this name go too. The webhook entry stays.
		_ = s.kube.deleteService(id)
		if !strings.Contains(err.Error(), " already exists") {
			_ = s.minio.deleteBuckets(svc)
		}
		return
	}
	owner := ""
	if svc.Owner != wire.AdminOwner {
		owner = svc.Owner
	}
	for _, name := range buckets {
		if b := s.minio.buckets[name]; b != nil {
			b.tags = map[string]string{"owner": owner, "from_service": svc.Name, "owner_name": c.ownerName()}
			if owner != "" {
				if err := s.minio.setPolicies(name, owner, svc.Visibility, svc.AllowedUsers); err != nil {
					c.text(http.StatusInternalServerError, "Error creating the service: "+err.Error())
				}
			}
		}
	}
	if svc.HasMembers() {
		// Not reached over HTTP: the probe has failed, as every other cluster refuses connections.
		c.text(http.StatusInternalServerError, fmt.Sprintf("Federation failed; rollback completed: %v", probe(svc)))
		return
	}
	c.code(http.StatusCreated)
}

// delete removes a service at once and, after the latency, empties and deletes every bucket that its definition names.
func (s *Sim) delete(c *call) {
	namespace := c.query("namespace")
	if c.user != nil {
		namespace = s.userNamespace(c.user.Subject)
	}
	s.mu.Lock()
	id, e, err := s.kube.read(namespace, c.service)
	if err == nil && !c.mayWrite(e.service) {
		s.mu.Unlock()
		c.forbidden("delete")
		return
	}
	if err == nil {
		secret, has := s.kube.secrets[id]
		err = s.kube.deleteService(id)
		if err == nil && has && c.crashSecret {
			s.kube.secrets[id] = secret
		}
	}
	if err != nil {
		s.mu.Unlock()
		c.code(http.StatusNotFound)
		return
	}
	s.mu.Unlock()
	if c.stall != nil {
		select {
		case <-c.life.ctx.Done():
			c.drop()
		case <-c.stall:
		}
	}
	gone := s.reachMinIO(c, "Put", "/minio/admin/v3/del-config-kv")
	if c.dropped {
		return
	}
	s.mu.Lock()
	away := gone != nil || s.minioAway(c)
	if !away && !c.crash {
		delete(s.minio.webhooks, id.name)
		c.life.restarting++
	}
	s.mu.Unlock()
	if c.crash {
		return
	}
	if !away {
		c.pause(c.latency)
		s.mu.Lock()
		s.restarted(c)
		s.mu.Unlock()
		if c.dropped {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = nil
	if !away {
		before := slices.Collect(maps.Keys(s.minio.buckets))
		err = s.minio.deleteBuckets(e.service)
		if s.cfg.RevivesBuckets && c.life.restarting > 0 {
			s.minio.revived = append(s.minio.revived, slices.DeleteFunc(before, func(name string) bool { return s.minio.buckets[name] != nil })...)
		}
	} else if io := append(append([]wire.StorageIOConfig(nil), e.service.Input...), e.service.Output...); len(io) > 0 {
		name, _ := wire.Bucket(io[0].Path)
		err = fmt.Errorf("error while removing MinIO bucket error deleting bucket %s, unable to delete objects from bucket %q, RequestError: send request failed\ncaused by: %w", name, name, refused("Get", s.provider.Endpoint+"/"+name))
	}
	if err != nil && !errors.Is(err, errNoSuchBucket) {
		c.text(http.StatusInternalServerError, "Error deleting service buckets: %!(EXTRA *errors.errorString="+err.Error()+")")
	}
	c.code(http.StatusNoContent)
}
