package services

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// chooseVolume looks for the volume that the definition asks for, before its service is
// made. adopts says that it is one that an earlier life left, which is used again.
func (s *Services) chooseVolume(ctx context.Context, v *observation) (adopts bool, no *refusal, err error) {
	name := v.def.VolumeName()
	if name == "" {
		return false, nil, nil
	}
	there, err := s.deps.OSCAR.Volume(ctx, name, v.as.Value)
	switch {
	case errors.Is(err, manager.ErrNoVolumes):
		// OSCAR itself will tell: a volume in the way is refused, and stays as it is.
		return false, nil, nil
	case manager.NotFound(err):
		there = nil
	case err != nil:
		no, err := refuse(err)
		return false, no, err
	}
	adopts, no = judgeVolume(v.def.Service.Volume, name, there, v.name, v.desired.Owner)
	return adopts, no, nil
}

// refuse turns a 401 or 403 into a no, since trying again changes nothing, and
// returns any other error.
func refuse(err error) (*refusal, error) {
	if manager.Refused(err) {
		return refusedCredential(), nil
	}
	return nil, err
}

// judgeVolume decides about a volume that a service is to be made with: there is what
// the cluster has of that name, or nil. Only one that a creation of this service made
// for the same owner is his to use again without naming it.
func judgeVolume(asked *oscar.Volume, name string, there *manager.Volume, service, owner string) (adopts bool, no *refusal) {
	size := strings.TrimSpace(asked.Size)
	refused := func(reason record.Reason, format string, args ...any) (bool, *refusal) {
		return false, &refusal{reason, fmt.Sprintf(format, args...)}
	}
	switch {
	case there == nil && size == "":
		return refused(record.ReasonInvalidService, "the definition uses volume %q, and the cluster has none of that name for its owner; give volume.size to have it made", name)
	case there == nil:
		return false, nil
	case there.Deleting():
		return refused(record.ReasonNameTaken, "volume %q of the cluster is being deleted; wait until it is gone, or choose another volume.name", name)
	case size == "":
		return false, nil
	case there.Service != service || !definition.SameOwner(there.Owner, owner):
		return refused(record.ReasonNameTaken, "a volume named %q that no creation of this service made stands on the cluster; it is not touched: "+
			"choose another volume.name, or leave out volume.size to use it", name)
	case smaller(there.Size, size):
		return refused(record.ReasonNameTaken, "volume %q was left on the cluster by an earlier service of this name; it has %s, and %s is asked for: "+
			"ask for no more than it has, choose another volume.name, or delete it there if nobody needs it", name, there.Size, size)
	}
	return true, nil
}

// smaller compares two quantities; what cannot be read is not smaller.
func smaller(have, want string) bool {
	h, err := resource.ParseQuantity(have)
	if err != nil {
		return false
	}
	w, err := resource.ParseQuantity(want)
	return err == nil && h.Cmp(w) < 0
}

// noteVolume remembers what our service mounts: when it is gone OSCAR does not tell.
func (s *Services) noteVolume(v *observation) {
	s.process.writes.change(v.name, func(n *recent) {
		before := n.volume
		if before == nil {
			before = record.VolumeOf(v.desired, v.observed)
		}
		n.volume = volumeSeen(v.service.Volume, v.def, before)
	})
}

// volumeSeen is what is remembered of the volume of a service of ours. Whether it may
// be deleted is known as long as there is a definition; before is what was remembered.
func volumeSeen(shown *manager.ServiceVolume, def *definition.Definition, before *record.Volume) *record.Volume {
	if shown == nil {
		return nil
	}
	out := &record.Volume{Name: shown.Name}
	switch {
	case shown.Size == "":
		// It was there before the service.
	case shown.Perishes():
		out.Deletable = true // OSCAR does it, with the service
	case def != nil:
		out.Deletable = def.VolumeGoes
	case before != nil:
		out.Deletable = before.Deletable
	}
	return out
}

// dropVolume deletes the volume that this life's creation made, as the owner ordered,
// if it still is what that creation made and no service uses it.
func (s *Services) dropVolume(ctx context.Context, v *observation) (bool, error) {
	name, kept := v.volume().Name, ""
	there, err := s.deps.OSCAR.Volume(ctx, name, v.as.Value)
	switch {
	case errors.Is(err, manager.ErrNoVolumes):
		kept = "the cluster's OSCAR manages no volumes (VOLUME_ENABLE=false)"
	case manager.NotFound(err):
		// It went with its service.
	case v.token.needed && manager.NotAdmitted(err):
		kept = s.keptFrom(v)
	case err != nil:
		return false, s.noteFailure(v, dropVolume, record.ReasonDeleteFailed, err)
	case there.Service != v.name || !definition.SameOwner(there.Owner, v.desired.Owner):
		kept = "somebody else has made it anew"
	case len(there.Attachments) > 0:
		kept = fmt.Sprintf("service %q uses it", there.Attachments[0].Service)
	default:
		if err := s.fence(v); err != nil {
			return false, err
		}
		s.session.FailPoints.Hit(failBeforeDrop)
		err := s.call(ctx, v, dropVolume, func(ctx context.Context, timeout time.Duration) error {
			return s.deps.OSCAR.DeleteVolume(ctx, name, v.as.Value, timeout)
		})
		s.session.FailPoints.Hit(failAfterDrop)
		if err != nil {
			return false, s.notDropped(v, dropVolume, err)
		}
	}
	if kept != "" {
		s.session.Log.Warn("volume is left", "service", v.name, "volume", name, "reason", kept)
	}
	s.process.writes.change(v.name, func(n *recent) { n.volumeDone, n.volumeKept = true, kept })
	return true, nil
}

// volumeFate tells what became of the volume of a deleted replica; nil without one.
func (s *Services) volumeFate(v *observation) *record.VolumeFate {
	volume := v.volume()
	if volume == nil || v.desired.Keep != "" {
		return nil
	}
	fate := &record.VolumeFate{Volume: volume.Name, Fate: record.BucketKept}
	switch {
	case v.desired.Data != record.DataDelete:
	case !volume.Deletable:
		fate.Why = "it was not made by this creation, or its lifecycle_policy is retain"
	case v.token.reason != "":
		fate.Why = fmt.Sprintf("%s: %s", v.token.reason, v.token.message)
	default:
		s.process.writes.change(v.name, func(n *recent) { fate.Why = n.volumeKept })
		if fate.Why == "" {
			fate.Fate = record.BucketDeleted
		}
	}
	return fate
}
