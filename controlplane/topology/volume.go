package topology

import (
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// retainVolume keeps OSCAR from deleting the volume that a service's creation makes: it
// would do so with every deletion of the service, ordered or not, and with a creation
// that finds a volume of that name.
func retainVolume(s *oscar.Service) {
	if v := s.Volume; v != nil && strings.TrimSpace(v.Size) != "" {
		v.LifecyclePolicy = oscar.VolumeRetain
	}
}

// VolumeGoes says whether the volume that a service's creation makes may be deleted with
// it, when its owner orders that: its definition does not say retain.
func VolumeGoes(s *oscar.Service) bool {
	v := s.Volume
	return v != nil && strings.TrimSpace(v.Size) != "" && strings.TrimSpace(v.LifecyclePolicy) != oscar.VolumeRetain
}

// SameVolume says whether two definitions of a service ask for the same volume. OSCAR
// does not change the volume of a service.
func SameVolume(a, b *oscar.Service) bool {
	if a.Volume == nil || b.Volume == nil {
		return a.Volume == b.Volume
	}
	name := func(s *oscar.Service) string {
		if name := strings.TrimSpace(s.Volume.Name); name != "" || strings.TrimSpace(s.Volume.Size) == "" {
			return name
		}
		return s.Name
	}
	return name(a) == name(b) && strings.TrimSpace(a.Volume.Size) == strings.TrimSpace(b.Volume.Size) &&
		strings.TrimSpace(a.Volume.MountPath) == strings.TrimSpace(b.Volume.MountPath) && VolumeGoes(a) == VolumeGoes(b)
}
