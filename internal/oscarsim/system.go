package oscarsim

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// noRuntime is why a service without serverless backend has no deployment.
const noRuntime = "Current deployment visibility is unavailable for this service runtime."

func (s *Sim) health(c *call) { c.text(http.StatusOK, "Ok") }

func (s *Sim) info(c *call) {
	const kubernetes = "v1.36.3"
	type backend struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	info := struct {
		Version      string   `json:"version"`
		GitCommit    string   `json:"git_commit"`
		Architecture string   `json:"architecture"`
		Kubernetes   string   `json:"kubernetes_version"`
		Serverless   *backend `json:"serverless_backend,omitempty"`
	}{s.cfg.Version, "abf6582b", runtime.GOARCH, kubernetes, nil}
	if s.cfg.Function != nil {
		info.Serverless = &backend{"Knative", kubernetes}
	}
	c.json(http.StatusOK, info)
}

// config answers the administrator with MinIO's root keys, a user with his own.
func (s *Sim) config(c *call) {
	type settings struct {
		Name              string   `json:"name"`
		Namespace         string   `json:"namespace"`
		ServicesNamespace string   `json:"services_namespace"`
		ServiceAccount    string   `json:"controller_service_account"`
		GPU               bool     `json:"gpu_available"`
		InterLink         bool     `json:"interLink_available"`
		Yunikorn          bool     `json:"yunikorn_enable"`
		Kueue             bool     `json:"kueue_enable"`
		Volume            bool     `json:"volume_enable"`
		OIDCGroups        []string `json:"oidc_groups"`
		MinIOQuota        bool     `json:"minio_quota_enabled"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gpu := false
	for _, n := range s.nodes {
		gpu = gpu || n.GPU > 0
	}
	provider := s.provider
	if c.user != nil {
		provider.AccessKey, provider.SecretKey = c.user.Subject, "sim-key-of-"+c.user.Subject
	}
	c.json(http.StatusOK, struct {
		Config       settings           `json:"config"`
		MinIO        wire.MinIOProvider `json:"minio_provider"`
		Repositories []string           `json:"allowed_image_repositories"`
	}{
		settings{
			Name: s.cfg.Name, Namespace: "oscar", ServicesNamespace: s.cfg.ServicesNamespace, ServiceAccount: "oscar-sa",
			GPU: gpu, Volume: !s.cfg.NoVolumes, OIDCGroups: append([]string{}, s.cfg.Groups...),
		},
		provider, append([]string{}, s.repositories...),
	})
}

// updateConfig takes the allowed image repositories; the rest of the body is ignored.
func (s *Sim) updateConfig(c *call) {
	if c.user != nil {
		c.json(http.StatusUnauthorized, "")
		return
	}
	var in struct {
		Repositories []string `json:"allowed_image_repositories"`
	}
	if err := wire.JSON(c.body, &in); err != nil {
		c.text(http.StatusBadRequest, "The configuration specification is not valid: "+err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repositories = in.Repositories
	c.json(http.StatusOK, in.Repositories)
}

// allowedImage checks an image against the allowed repositories. The caller holds the lock.
func (s *Sim) allowedImage(image string) error {
	for _, repository := range s.repositories {
		if strings.Contains(image, repository) {
			return nil
		}
	}
	if len(s.repositories) == 0 {
		return nil
	}
	return fmt.Errorf("image %s is not allowed for pull on the cluster. Check the additional configuration file on 'additional-oscar-config'", image)
}

// deployment answers how an exposed service stands, and that others have none. A missing service is a 403, as on the
// real one.
func (s *Sim) deployment(c *call) {
	e := s.deployed(c)
	if e == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.json(http.StatusOK, s.deploymentStatus(e))
}

func (s *Sim) deploymentLogs(c *call) {
	e := s.deployed(c)
	if e == nil {
		return
	}
	c.json(http.StatusOK, struct {
		Service   string   `json:"service_name"`
		Available bool     `json:"available"`
		Message   string   `json:"message"`
		Entries   []string `json:"entries"`
	}{e.Name, false, "Deployment logs are unavailable for this service.", []string{}})
}

func (s *Sim) deployed(c *call) *wire.Service {
	if !validName(c) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, e, err := s.kube.read("", c.service)
	if err != nil || !c.mayRead(e.service) {
		c.text(http.StatusForbidden, "You do not have permission to access this service")
		return nil
	}
	return e.service
}
