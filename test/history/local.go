package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

// Local is what somebody does directly at an OSCAR, beside the federation.
type Local struct {
	Op string
	// Cluster and Service are numbers: of the cluster, and of a free service.
	Cluster, Service int
	// Number makes objects and scripts differ.
	Number int `json:"number,omitempty"`
	// For is how long somebody's own service stands.
	For time.Duration `json:"for,omitempty"`
}

// What is done directly at an OSCAR.
const (
	// localForeign makes a service of the name while there is none.
	localForeign = "make a foreign service in the place of"
	// localCopy and localReplace delete ours and make another: with our annotations, or without.
	localCopy    = "delete and copy"
	localReplace = "delete and replace"
	// localEdit changes ours.
	localEdit = "edit"
	// localUnlabel takes it out of OSCAR's lists.
	localUnlabel = "take the label from"
	// localUpload puts an object into its bucket.
	localUpload = "put an object into the bucket of"
	// localSweep deletes the Jobs of jobService that have ended.
	localSweep = "delete ended jobs beside"
)

const (
	// localWait is how long somebody waits until ours stands, and localLook the pause between two
	// looks.
	localWait = 2 * time.Minute
	localLook = time.Second
)

// String is one line.
func (l Local) String() string {
	out := fmt.Sprintf("%s %s/%s", l.Op, clusterID(l.Cluster), freeName(l.Service))
	if l.For != 0 {
		out += fmt.Sprintf(" for %v", l.For.Round(time.Millisecond))
	}
	return out
}

// locals does what the plan says is done directly at OSCARs.
func (p *player) locals(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, s := range p.plan.Steps {
		if s.Local != nil {
			p.until(s.At)
			group.Go(func() { p.local(ctx, *s.Local) })
		}
	}
}

func (p *player) local(ctx context.Context, l Local) {
	c, name := p.w.Cluster(clusterID(l.Cluster)), freeName(l.Service)
	switch l.Op {
	case localForeign:
		if _, stands := c.Sim.Service(name); !stands {
			p.foreign.put(ctx, c, name, foreignDefinition(name, l.Number), l.For)
		}
	case localCopy, localReplace:
		if view := p.ours(c, name); view != nil {
			p.replace(ctx, c, *view, l)
		}
	case localEdit:
		if view := p.ours(c, name); view != nil {
			p.edit(ctx, c, *view, l)
		}
	case localUnlabel:
		if p.ours(c, name) != nil {
			_ = c.Sim.LoseLabel(name) // it may have gone
		}
	case localUpload:
		if p.ours(c, name) != nil {
			p.objects.put(c, name, fmt.Sprintf("kept/%d", l.Number))
		}
	case localSweep:
		p.sweep(c.Sim)
	}
}

// ours waits until a service of the federation stands; nil when none comes.
func (p *player) ours(c *world.Cluster, name string) *oscarsim.ServiceView {
	for began := time.Now(); time.Since(began) < localWait; <-time.After(localLook) {
		if view, ok := c.Sim.Service(name); ok && view.Readable && view.Registered && view.Annotations[oscar.AnnotationUID] != "" {
			return &view
		}
	}
	return nil
}

// replace puts a service of somebody else into the place of ours.
func (p *player) replace(ctx context.Context, c *world.Cluster, view oscarsim.ServiceView, l Local) {
	def := foreignDefinition(view.Name, l.Number)
	if l.Op == localCopy {
		def = changed(view, func(def map[string]any) {
			def["script"] = script(l.Number)
			def["token"] = fmt.Sprintf("%064x", l.Number)
		})
	}
	p.objects.forget(c, view.Name)
	c.Sim.RemoveService(view.Name)
	p.foreign.put(ctx, c, view.Name, def, l.For)
}

// edit changes ours behind the federation's back.
func (p *player) edit(ctx context.Context, c *world.Cluster, view oscarsim.ServiceView, l Local) {
	body := changed(view, func(def map[string]any) {
		def["script"] = script(l.Number)
		if annotations, ok := def["annotations"].(map[string]any); ok && l.Number%2 == 0 {
			delete(annotations, oscar.AnnotationUID)
		}
	})
	ctx, cancel := context.WithTimeout(ctx, freeWait)
	defer cancel()
	_, _, _ = p.w.TryDirectly(ctx, http.MethodPut, c.URL+"/system/services", []byte(body)) // OSCAR may be away
}

func script(n int) string { return fmt.Sprintf("#!/bin/sh\n# somebody's version %d\n", n) }

// changed is the definition of a service, changed.
func changed(view oscarsim.ServiceView, change func(map[string]any)) string {
	def := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(view.JSON))
	decoder.UseNumber()
	if err := decoder.Decode(&def); err != nil {
		panic(err) // OSCAR wrote it
	}
	change(def)
	doc, err := json.Marshal(def)
	if err != nil {
		panic(err)
	}
	return string(doc)
}

// sweep deletes the Jobs that have ended, as an operator does.
func (p *player) sweep(sim *oscarsim.Sim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range sim.Jobs(jobService) {
		if j.Status == oscarsim.JobSucceeded || j.Status == oscarsim.JobFailed {
			_ = sim.DeleteJob(jobService, j.Name) // it may have gone
			p.swept[j.Event] = true
		}
	}
}

// sweptTooSoon says whether the Job of an event may be made again: by a POST that comes late, of which nobody knows
// because OSCAR refused it while the Job stood; or since OSCAR answered that it had failed to make it, or nothing, and the Job
// was deleted before any list showed it.
func (p *player) sweptTooSoon(event string) bool {
	untold := slices.ContainsFunc(p.plan.Steps, func(s Step) bool { return s.Fault != nil && p.losesAnswers(*s.Fault) })
	return untold && (p.swept[event] || p.drifted)
}

// losesAnswers says whether a fault can keep what OSCAR has done about a job from its syncer.
func (p *player) losesAnswers(f Fault) bool {
	if f.Kind == faultOSCAR {
		return slices.Contains([]string{oscarsim.FaultLate, oscarsim.Fault500After, oscarsim.FaultCrash}, f.What) &&
			(f.Op == oscarsim.OpJob || f.Op == oscarsim.OpAny)
	}
	for i := range p.plan.Shape.Clusters {
		if at := hostOSCAR(i); f.On == at || f.To == at {
			return f.Kind != faultDrift
		}
	}
	return false
}
