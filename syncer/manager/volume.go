package manager

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// ServiceVolume is the volume that a service mounts. One with a size was made by the
// creation of this very service: OSCAR refuses a creation whose volume exists, and no
// PUT changes what was asked then.
type ServiceVolume struct {
	Name            string `json:"name"`
	Size            string `json:"size"`
	LifecyclePolicy string `json:"lifecycle_policy"`
}

// Perishes says that OSCAR deletes the volume with its service.
func (v *ServiceVolume) Perishes() bool {
	return v != nil && v.Size != "" && v.LifecyclePolicy != oscar.VolumeRetain
}

// Volume is a managed volume: a PersistentVolumeClaim of OSCAR's.
type Volume struct {
	Name string `json:"name"`
	Size string `json:"size"`
	// Owner is the subject of a user, or OSCAR's administrator.
	Owner string `json:"owner_user"`
	// Service is the one whose creation made it; empty for one that was made by itself.
	Service     string `json:"created_by_service"`
	Attachments []struct {
		Service string `json:"service_name"`
	} `json:"attachments"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// Deleting says that it goes as soon as no pod uses it.
func (v *Volume) Deleting() bool { return v.Status.Phase == "deleting" }

// ErrNoVolumes says that this OSCAR manages no volumes (VOLUME_ENABLE=false). Its
// services can have some all the same.
var ErrNoVolumes = errors.New("this OSCAR manages no volumes: VOLUME_ENABLE is false")

// Volume reads a volume of the bearer's namespace, or with an empty one of the
// administrator's services. One that is not there is NotFound.
func (c *Client) Volume(ctx context.Context, name string, as Bearer) (*Volume, error) {
	var out Volume
	if err := c.read(ctx, call{op: OpVolume, subject: name, path: []string{"system", "volumes", name}, as: as}, &out); err != nil {
		return nil, volumeError(err)
	}
	return &out, nil
}

// DeleteVolume deletes a volume of the bearer's namespace, or with an empty one of the
// administrator's services. OSCAR refuses one that a service mounts, and says yes to
// one that is not there.
func (c *Client) DeleteVolume(ctx context.Context, name string, as Bearer, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpDeleteVolume, subject: name, method: http.MethodDelete,
		path: []string{"system", "volumes", name}, as: as, timeout: timeout})
	return volumeError(err)
}

// volumeError tells a volume that is not there, which is a 404 without a word, from a
// path that OSCAR does not have.
func volumeError(err error) error {
	if api, ok := errors.AsType[*APIError](err); ok && api.Status == http.StatusNotFound && api.Body != "" {
		return ErrNoVolumes
	}
	return err
}
