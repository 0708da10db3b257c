package oscarsim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// update replaces a definition. It makes buckets first, answers 500 for what it cannot do about MinIO users, and goes
// on all the same.
func (s *Sim) update(c *call) {
	svc, ok := s.decode(c)
	if !ok {
		return
	}
	svc.DefaultGroup()
	s.mu.Lock()
	id, e, err := s.kube.read("", svc.Name)
	if err != nil {
		s.mu.Unlock()
		c.code(http.StatusNotFound)
		return
	}
	old := e.service
	if !wire.SameVolume(old, svc) {
		s.mu.Unlock()
		c.text(http.StatusBadRequest, "volume updates are not supported after service creation")
		return
	}
	if !c.mayWrite(old) {
		s.mu.Unlock()
		c.forbidden("modify")
		return
	}
	if c.user != nil {
		svc.Owner = old.Owner
	}
	if old.Token != "" {
		svc.Token = old.Token
	}
	svc.Namespace = id.namespace
	uid := ""
	if c.user != nil {
		uid = c.user.Subject
	}
	if svc.IsolationLevel == isolationUser && !isolate(svc, uid) {
		s.mu.Unlock()
		c.code(http.StatusInternalServerError) // it panics
		return
	}
	s.minio.dropPrivate(old, svc)
	buckets, err := s.minio.makeBuckets(svc, s.provider, true)
	s.mu.Unlock()
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, errInput) {
			status = http.StatusBadRequest
		}
		c.text(status, err.Error())
		return
	}
	if !s.updatePolicies(c, old, svc, buckets) || c.crash {
		return
	}
	s.finishUpdate(c, id, old, svc)
}

// updatePolicies sets the policies of the buckets of a changed definition and registers the webhook again for each
// new one. It reports whether the update goes on.
func (s *Sim) updatePolicies(c *call, old, svc *wire.Service, buckets []string) bool {
	const making = "Error creating the service: "
	dropped := map[string]bool{}
	var order []string
	for _, io := range append(append([]wire.StorageIOConfig(nil), old.Input...), old.Output...) {
		if kind, _ := wire.Provider(io.Provider); kind == "minio" {
			name, _ := wire.Bucket(io.Path)
			if _, seen := dropped[name]; !seen {
				order = append(order, name)
			}
			dropped[name] = true
		}
	}
	for _, name := range buckets {
		if _, known := dropped[name]; known {
			dropped[name] = false
			switch {
			case old.Visibility != svc.Visibility:
				s.unsetPolicies(c, making, name, old)
				s.setPolicies(c, making, name, svc.Owner, svc.Visibility, svc.AllowedUsers)
			case svc.Visibility == "restricted":
				s.regroup(c, making, name, svc)
			}
			continue
		}
		s.setPolicies(c, making, name, svc.Owner, svc.Visibility, svc.AllowedUsers)
		if err := s.registerWebhook(c, svc); err != nil {
			c.text(http.StatusInternalServerError, err.Error())
			return false
		}
		if c.dropped {
			return false
		}
	}
	for _, name := range order {
		if dropped[name] {
			s.setPolicies(c, "error setting new policies: ", name, "", "private", nil)
		}
	}
	return true
}

func (s *Sim) unsetPolicies(c *call, prefix, bucket string, old *wire.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.minio.unset(bucket, old.Owner, old.Visibility); err != nil {
		c.text(http.StatusInternalServerError, prefix+err.Error())
	}
}

// regroup changes who is in the group of a restricted bucket.
func (s *Sim) regroup(c *call, prefix, bucket string, svc *wire.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.minio.inPolicy(bucket, bucket) {
		c.text(http.StatusInternalServerError, prefix+"error getting group description for "+bucket+": The specified group does not exist. (Specified group does not exist)")
		return
	}
	if err := s.minio.restrict(bucket, svc.AllowedUsers); err != nil {
		c.text(http.StatusInternalServerError, prefix+err.Error())
	}
}

func (s *Sim) setPolicies(c *call, prefix, bucket, owner, visibility string, allowed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.minio.setPolicies(bucket, owner, visibility, allowed); err != nil {
		c.text(http.StatusInternalServerError, prefix+err.Error())
	}
}

// finishUpdate writes Secret and definition. Where the image cannot be prefetched the old definition is put back.
func (s *Sim) finishUpdate(c *call, id key, old, svc *wire.Service) {
	s.mu.Lock()
	stored := s.storeSecrets(c, id, svc)
	var err error
	if stored {
		err = s.store(svc)
	}
	s.mu.Unlock()
	if !stored {
		return
	}
	if err == nil {
		if err = s.prefetch(c, svc); err != nil {
			s.mu.Lock()
			_ = s.store(old)
			s.mu.Unlock()
		}
	}
	switch {
	case c.dropped:
		return
	case err != nil:
		c.text(http.StatusInternalServerError, "Error updating the service: "+err.Error())
	case svc.HasMembers() && !svc.MeshWorker():
		if errs := expand(svc); len(errs) > 0 {
			c.text(http.StatusOK, fmt.Sprintf("Updated with federation warnings: %v", errs))
		}
	}
	c.code(http.StatusNoContent)
}

// store replaces a definition. The caller holds the lock.
func (s *Sim) store(svc *wire.Service) error {
	if err := s.allowedImage(svc.Image); err != nil {
		return err
	}
	return s.kube.updateService(svc)
}

// storeSecrets writes the Secret, or answers why not. The caller holds the lock.
func (s *Sim) storeSecrets(c *call, id key, svc *wire.Service) bool {
	if svc.HasMembers() && strings.TrimSpace(svc.Environment.Secrets["refresh_token"]) == "" {
		secret, exists := s.kube.secrets[id]
		if !exists {
			c.text(http.StatusBadRequest, noRefreshToken)
			return false
		}
		if _, has := secret["refresh_token"]; !has {
			c.text(http.StatusInternalServerError, `error reading refresh-token secret: refresh-token secret missing key "refresh_token"`)
			return false
		}
	}
	if len(svc.Environment.Secrets) == 0 {
		return true
	}
	err := s.kube.putSecret(id, svc.Environment.Secrets)
	if err != nil {
		c.text(http.StatusInternalServerError, err.Error())
	}
	return err == nil
}
