package syncer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheScriptOfAnExposedServiceIsNotEmptied: without Knative each PUT of an exposed service empties its script, and
// its next pod runs nothing.
func TestTheScriptOfAnExposedServiceIsNotEmptied(t *testing.T) {
	for name, c := range map[string]struct {
		knative, ownCommand, direct bool
	}{
		"without Knative":                       {},
		"without Knative, changed by a user":    {direct: true},
		"without Knative, with its own command": {ownCommand: true},
		"with Knative":                          {knative: true},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				cfg := oscarsim.Config{}
				if c.knative {
					cfg.Function = http.HandlerFunc(oscarsim.Echo)
				}
				r := newRig(t, cfg)
				r.start()
				p := newReplica("grayify")
				p.secret = ""
				p.extra = map[string]any{"expose": map[string]any{"api_port": []int{80}, "default_command": c.ownCommand}}
				r.makeReady(p)
				v, _ := r.sim.Service(p.name)
				if c.direct {
					r.ask(http.MethodPut, "/system/services", strings.Replace(string(v.JSON), `"cpu":"0.5"`, `"cpu":"2"`, 1))
					o := r.await(p, record.PhaseDrifted)
					if !strings.Contains(o.Message, "empties the script") || o.Reason != record.ReasonUpdateFailed {
						t.Errorf("told: %+v", o)
					}
					return
				}
				p.cpu, p.generation = "1", 2
				r.want(p, record.IntentApply)
				if c.knative || c.ownCommand {
					r.await(p, record.PhaseReady)
					return
				}
				o := r.await(p, record.PhaseFailed)
				if !strings.Contains(o.Message, "empties the script") || o.Reason != record.ReasonUpdateFailed {
					t.Errorf("told: %+v", o)
				}
				if v, _ := r.sim.Service(p.name); !strings.Contains(string(v.JSON), `"script":"#!/bin/sh`) {
					t.Error("its script is empty")
				}
				r.equalCalls(p.name, "create")
				r.want(p, record.IntentDelete)
				r.await(p, record.PhaseDeleted)
			})
		})
	}
}
