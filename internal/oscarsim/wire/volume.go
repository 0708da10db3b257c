package wire

import (
	"errors"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Lifecycle policies of a volume that a service makes.
const (
	VolumeDelete = "delete"
	VolumeRetain = "retain"
)

// NormaliseVolume checks what a service asks of volumes, and fills in the name and the policy of one that is to be
// made: delete.
func (s *Service) NormaliseVolume() error {
	v := s.Volume
	if v == nil {
		return nil
	}
	for _, field := range []*string{&v.Name, &v.Size, &v.MountPath, &v.LifecyclePolicy} {
		*field = strings.TrimSpace(*field)
	}
	switch {
	case v.MountPath == "":
		return errors.New("volume.mount_path is required")
	case v.Size == "" && v.Name == "":
		return errors.New("volume.name is required when volume.size is not set")
	}
	if v.Name != "" {
		if err := VolumeName(v.Name); err != nil {
			return err
		}
	}
	if err := v.normaliseNew(s.Name); err != nil {
		return err
	}
	if !path.IsAbs(v.MountPath) {
		return errors.New("volume.mount_path must be an absolute path")
	}
	for _, taken := range [...]string{"/oscar/config", "/oscar/bin"} { // OSCAR itself mounts something there
		if v.MountPath == taken || strings.HasPrefix(v.MountPath, taken+"/") {
			return errors.New("volume.mount_path cannot overlap OSCAR reserved paths")
		}
	}
	return nil
}

// normaliseNew is about what only a volume that is to be made has.
func (v *Volume) normaliseNew(service string) error {
	if v.Size == "" {
		if v.LifecyclePolicy != "" {
			return errors.New("volume.lifecycle_policy is only valid when volume.size is set")
		}
		return nil
	}
	if err := VolumeSize(v.Size); err != nil {
		return err
	}
	setDefault(&v.Name, service)
	setDefault(&v.LifecyclePolicy, VolumeDelete)
	if v.LifecyclePolicy != VolumeDelete && v.LifecyclePolicy != VolumeRetain {
		return errors.New(`volume.lifecycle_policy must be either "delete" or "retain"`)
	}
	return nil
}

// VolumeName checks the name of a volume.
func VolumeName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New("volume.name must satisfy Kubernetes DNS-1123 naming rules")
	}
	return nil
}

// VolumeSize checks the size of a new volume.
func VolumeSize(size string) error {
	if q, err := resource.ParseQuantity(size); err != nil || q.Sign() <= 0 {
		return errors.New("volume.size must be a valid positive quantity")
	}
	return nil
}

// SameVolume reports whether two services ask the same of volumes, letter by letter.
func SameVolume(a, b *Service) bool {
	if a.Volume == nil || b.Volume == nil {
		return a.Volume == b.Volume
	}
	return *a.Volume == *b.Volume
}
