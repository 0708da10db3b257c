package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

func (t *trial) repair() error {
	if err := errors.Join(t.create(trialLate, nil), t.changeDirectly()); err != nil {
		return err
	}
	return t.await("its script is back", func() bool { return t.script(t.sim) == t.service("first", nil).Script })
}

func (t *trial) report() error {
	err := t.create(trialLate, func(f *oscar.Federation) { f.Drift = oscar.DriftReport })
	if err = errors.Join(err, t.changeDirectly()); err != nil {
		return err
	}
	<-time.After(trialLate)
	if t.script(t.sim) == t.service("first", nil).Script {
		return errors.New("it was repaired")
	}
	return t.await("it is reported", func() bool { return t.seenByOwner() == record.PhaseDrifted })
}

func (t *trial) bucket() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	t.sim.RemoveBucket(t.name)
	return t.await("its bucket is back", t.hasBucket)
}

func (t *trial) hasBucket() bool {
	_, has := t.sim.Bucket(t.name)
	return has
}

func (t *trial) pause() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	if _, err := t.api.Pause(t.ctx, t.name, "", true); err != nil {
		return err
	}
	changed := t.service("second", nil)
	if _, err := t.api.ChangeService(t.ctx, changed, client.ChangeOptions{Async: true}); err != nil {
		return err
	}
	<-time.After(trialLate)
	if !t.everywhere(func(sim *oscarsim.Sim) bool { return t.script(sim) != changed.Script }) {
		return errors.New("it was changed while it was paused")
	}
	if _, err := t.api.Pause(t.ctx, t.name, "", false); err != nil {
		return err
	}
	return t.await("the change is everywhere", func() bool {
		return t.everywhere(func(sim *oscarsim.Sim) bool { return t.script(sim) == changed.Script })
	})
}

// script is that of the service on a cluster.
func (t *trial) script(sim *oscarsim.Sim) string {
	view, _ := sim.Service(t.name)
	var service struct {
		Script string `json:"script"`
	}
	_ = json.Unmarshal(view.JSON, &service) // what is no service has no script
	return service.Script
}

// changeDirectly changes the service at its OSCAR, as a user does who looks at it and sends it back.
func (t *trial) changeDirectly() error { return t.changeDirectlyTo(func(map[string]any) {}) }

func (t *trial) changeDirectlyTo(change func(fields map[string]any)) error {
	view, _ := t.sim.Service(t.name)
	var fields map[string]any
	if err := json.Unmarshal(view.JSON, &fields); err != nil {
		return err
	}
	fields["script"] = "#!/bin/sh\n# somebody's\n"
	change(fields)
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return t.directly(http.MethodPut, "/system/services", body)
}

// directly asks the OSCAR of the trial's cluster for something, as somebody does beside the federation.
func (t *trial) directly(method, path string, body []byte) error {
	status, said, err := t.player.w.TryDirectly(t.ctx, method, t.cluster.URL+path, body)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("OSCAR answers %s %s with %d %s", method, path, status, bytes.TrimSpace(said))
	}
	return err
}
