package definition

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// OSCAR deletes the volume that a service's creation made with the service, unless its
// policy is retain, and lets no PUT change the policy. It also deletes a volume that
// was there before when a creation without that policy finds it in its way. So each
// service is made with retain, whatever its definition says, and a volume is deleted by
// a call of its own, when that is ordered.

// VolumeName is the volume that the definition asks for; empty for none.
func (d *Definition) VolumeName() string {
	v := d.Service.Volume
	if v == nil {
		return ""
	}
	if name := strings.TrimSpace(v.Name); name != "" {
		return name
	}
	return d.Service.Name
}

// giveVolume writes the volume into a body: that of the service that stands, as OSCAR
// shows it, since any other is refused; for a POST the one that is asked for, to be
// retained, or by its name alone where it is there already.
func (d *Definition) giveVolume(fields map[string]json.RawMessage, stands *manager.Service, adopts bool) error {
	if stands != nil {
		var shown struct {
			Volume json.RawMessage `json:"volume"`
		}
		if err := json.Unmarshal(stands.JSON, &shown); err != nil {
			return fmt.Errorf("service: %w", err)
		}
		delete(fields, "volume")
		if stands.Volume != nil {
			fields["volume"] = shown.Volume
		}
		return nil
	}
	if d.Service.Volume == nil {
		return nil
	}
	volume := *d.Service.Volume
	switch {
	case adopts:
		volume.Name, volume.Size, volume.LifecyclePolicy = d.VolumeName(), "", ""
	case strings.TrimSpace(volume.Size) != "":
		volume.LifecyclePolicy = oscar.VolumeRetain
	}
	raw, err := json.Marshal(volume)
	if err != nil {
		return fmt.Errorf("volume: %w", err)
	}
	fields["volume"] = raw
	return nil
}
