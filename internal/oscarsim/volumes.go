package oscarsim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// volume is a PersistentVolumeClaim that OSCAR calls a managed volume. Its key is namespace and name.
type volume struct {
	size, owner string
	// service made it, with policy; empty for one that was made by POST /system/volumes.
	service, policy string
	// files stands for what is in it.
	files []string
}

var (
	errVolumeExists = errors.New("the volume exists")
	errNoVolume     = errors.New("there is no such volume")
)

// ensureVolume makes the volume that a new service asks for, or looks for the one that it is to use.
func (k *kube) ensureVolume(svc *wire.Service) error {
	v := svc.Volume
	if v == nil {
		return nil
	}
	id := key{svc.Namespace, v.Name}
	switch {
	case v.Size == "" && k.volumes[id] == nil:
		return errNoVolume
	case v.Size == "":
		return nil
	case k.volumes[id] != nil:
		return errVolumeExists
	}
	k.volumes[id] = &volume{size: v.Size, owner: svc.Owner, service: svc.Name, policy: v.LifecyclePolicy}
	return nil
}

// dropVolume deletes the volume that a definition asked to be made, also one that others made,
// unless its policy is retain.
func (k *kube) dropVolume(svc *wire.Service) {
	if v := svc.Volume; v != nil && v.Size != "" && v.LifecyclePolicy != wire.VolumeRetain {
		delete(k.volumes, key{svc.Namespace, v.Name})
	}
}

// attachments name the services of a namespace that mount a volume.
func (k *kube) attachments(id key) []volumeAttachment {
	var out []volumeAttachment
	for _, e := range k.list() {
		if v := e.service.Volume; e.service.Namespace == id.namespace && v != nil && v.Name == id.name {
			out = append(out, volumeAttachment{e.service.Name, v.MountPath})
		}
	}
	return out
}

type volumeAttachment struct {
	Service   string `json:"service_name"`
	MountPath string `json:"mount_path"`
}

type volumeInfo struct {
	Name        string             `json:"name"`
	Namespace   string             `json:"namespace,omitempty"`
	Claim       string             `json:"pvc_name,omitempty"`
	Size        string             `json:"size,omitempty"`
	Owner       string             `json:"owner_user,omitempty"`
	Service     string             `json:"created_by_service,omitempty"`
	Mode        string             `json:"creation_mode,omitempty"`
	Policy      string             `json:"lifecycle_policy,omitempty"`
	Attachments []volumeAttachment `json:"attachments,omitempty"`
	Status      struct {
		Phase string `json:"phase,omitempty"`
		Count int    `json:"attachment_count,omitempty"`
	} `json:"status"`
}

// volumeInfo describes a volume.
func (k *kube) volumeInfo(id key) volumeInfo {
	v := k.volumes[id]
	info := volumeInfo{
		Name: id.name, Namespace: id.namespace, Claim: id.name, Size: canonicalSize(v.size), Owner: v.owner,
		Service: v.service, Mode: "api", Policy: v.policy, Attachments: k.attachments(id),
	}
	if v.service != "" {
		info.Mode = "service"
	}
	info.Status.Phase, info.Status.Count = "ready", len(info.Attachments)
	if info.Status.Count > 0 {
		info.Status.Phase = "in_use"
	}
	return info
}

// canonicalSize is a quantity as Kubernetes writes it.
func canonicalSize(size string) string {
	q, err := resource.ParseQuantity(size)
	if err != nil {
		return size
	}
	return q.String()
}

// volumeStatus is what OSCAR adds to a service that it shows.
func (k *kube) volumeStatus(svc *wire.Service) wire.VolumeStatus {
	if svc.Volume == nil {
		return wire.VolumeStatus{}
	}
	status := wire.VolumeStatus{Enabled: true, Name: svc.Volume.Name, Phase: "in_use"}
	if k.volumes[key{svc.Namespace, svc.Volume.Name}] == nil {
		status.Phase, status.Error = "error", fmt.Sprintf("persistentvolumeclaims %q not found", svc.Volume.Name)
	}
	return status
}

// volumesOf is the namespace whose volumes the caller handles, and the owner of those that he
// makes.
func (s *Sim) volumesOf(c *call) (namespace, owner string) {
	if c.user == nil {
		return s.cfg.ServicesNamespace, wire.AdminOwner
	}
	return s.userNamespace(c.user.Subject), c.user.Subject
}

// hasVolumes answers the paths of an OSCAR without managed volumes as its router does.
func (s *Sim) hasVolumes(c *call) bool {
	if s.cfg.NoVolumes {
		c.text(http.StatusNotFound, "404 page not found")
	}
	return !s.cfg.NoVolumes
}

func (s *Sim) listVolumes(c *call) {
	if !s.hasVolumes(c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _ := s.volumesOf(c)
	list := []volumeInfo{}
	for _, id := range slices.SortedFunc(maps.Keys(s.kube.volumes), func(a, b key) int { return cmp.Compare(a.name, b.name) }) {
		if id.namespace == namespace {
			list = append(list, s.kube.volumeInfo(id))
		}
	}
	c.json(http.StatusOK, list)
}

func (s *Sim) createVolume(c *call) {
	if !s.hasVolumes(c) {
		return
	}
	var in struct {
		Name string `json:"name"`
		Size string `json:"size"`
	}
	if err := wire.JSON(c.body, &in); err != nil {
		c.text(http.StatusBadRequest, "The volume specification is not valid: "+err.Error())
		return
	}
	in.Name, in.Size = strings.TrimSpace(in.Name), strings.TrimSpace(in.Size)
	if err := cmp.Or(wire.VolumeName(in.Name), wire.VolumeSize(in.Size)); err != nil {
		c.text(http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, owner := s.volumesOf(c)
	id := key{namespace, in.Name}
	if s.kube.volumes[id] != nil {
		c.text(http.StatusConflict, "volume already exists in caller namespace")
		return
	}
	s.kube.volumes[id] = &volume{size: in.Size, owner: owner}
	c.json(http.StatusCreated, s.kube.volumeInfo(id))
}

func (s *Sim) getVolume(c *call) {
	if !s.hasVolumes(c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _ := s.volumesOf(c)
	id := key{namespace, c.params[0]}
	if s.kube.volumes[id] == nil {
		c.code(http.StatusNotFound)
		return
	}
	c.json(http.StatusOK, s.kube.volumeInfo(id))
}

// deleteVolume answers 204 for a volume that is not there, too.
func (s *Sim) deleteVolume(c *call) {
	if !s.hasVolumes(c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _ := s.volumesOf(c)
	id := key{namespace, c.params[0]}
	if len(s.kube.attachments(id)) > 0 {
		c.text(http.StatusBadRequest, "managed volume is still attached to one or more services")
		return
	}
	delete(s.kube.volumes, id)
	c.code(http.StatusNoContent)
}

// VolumeView is a managed volume.
type VolumeView struct {
	Size, Owner string
	// Service made it; empty for one that was made by itself.
	Service string
	Files   []string
}

// Volume returns a volume of the namespace of an owner: wire.AdminOwner or a user's subject.
func (s *Sim) Volume(owner, name string) (VolumeView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.kube.volumes[s.volumeKey(owner, name)]
	if v == nil {
		return VolumeView{}, false
	}
	return VolumeView{Size: v.size, Owner: v.owner, Service: v.service, Files: slices.Clone(v.files)}, true
}

// PutVolume puts files into a volume, which is made without a service if it is not there.
func (s *Sim) PutVolume(owner, name string, files ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.volumeKey(owner, name)
	if s.kube.volumes[id] == nil {
		s.kube.volumes[id] = &volume{size: "1Gi", owner: owner}
	}
	s.kube.volumes[id].files = append(s.kube.volumes[id].files, files...)
}

func (s *Sim) volumeKey(owner, name string) key {
	if owner == wire.AdminOwner {
		return key{s.cfg.ServicesNamespace, name}
	}
	return key{s.userNamespace(owner), name}
}
