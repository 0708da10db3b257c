package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

// Trial is what is asked when all is quiet again, while one thing is wrong that is known: then it is
// known what must come of it, and how soon.
type Trial struct {
	What string
	// Cluster and Plane are the numbers of the cluster and of the control plane that it is about.
	Cluster, Plane int
	// Ahead is by how much a clock is wrong.
	Ahead time.Duration `json:"ahead,omitempty"`
}

// trials are what each of them does. A service that it makes has its name.
func trials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a creation without a vote is refused at its deadline":                        (*trial).vote,
		"a creation whose OSCAR is away is refused at its deadline":                   (*trial).voteAway,
		"a creation whose OSCAR answers nothing is refused at its deadline":           (*trial).voteHangs,
		"a creation whose syncer has gone meanwhile is refused at its deadline":       (*trial).voteGone,
		"a creation that OSCAR refuses is answered when nothing is left of it":        (*trial).refusal,
		"a creation that an OSCAR does not answer is over soon after its deadline":    (*trial).silence,
		"a creation whose syncer has gone is over soon after its deadline":            (*trial).lost,
		"a creation succeeds beside a control plane with a wrong clock":               (*trial).planeClock,
		"a creation succeeds beside a syncer with a wrong clock":                      (*trial).syncerClock,
		"a creation succeeds beside a syncer whose clock has coarse steps":            (*trial).coarseClock,
		"a best-effort creation is joined by a cluster that comes later":              (*trial).bestEffort,
		"a service that somebody changes is repaired":                                 (*trial).repair,
		"a service that somebody changes is reported, where that is asked for":        (*trial).report,
		"a bucket that somebody deletes is made again":                                (*trial).bucket,
		"a paused service is changed when the pause ends":                             (*trial).pause,
		"a deletion while a change waits for votes ends both":                         (*trial).deleteInChange,
		"a deletion with its data leaves no bucket of ours":                           (*trial).deleteData,
		"a deletion with its data leaves no volume of ours":                           (*trial).deleteVolume,
		"a job that is cancelled ends":                                                (*trial).cancel,
		"a job that OSCAR refuses is parked, and runs when it is replayed after that": (*trial).park,
		"a job that OSCAR refuses rests, beside a control plane with a wrong clock":   (*trial).pauses,
		"a job that OSCAR makes and answers with an error is started once":            (*trial).halfDone,
		"a job of a syncer that comes back as it is taken back is started once":       (*trial).comesBack,
		"a report on a job that comes after its session is not taken":                 (*trial).lateJobReport,
		"a report on a service that comes after its session is not taken":             (*trial).lateReport,
		"a request whose answers from etcd are lost for a moment is made once":        (*trial).lostAnswers,
		"a creation whose answers from etcd are lost is told of truly":                (*trial).longLost,
		"a creation whose control plane dies is told of truly":                        (*trial).dies,
		"a control plane whose watch falls silent shows what is there":                (*trial).silentWatch,
		"a control plane that was away from etcd shows what is there":                 (*trial).away,
		"a refusal that its control plane has missed is told":                         (*trial).missedRefusal,
		"a change without a vote is refused at its deadline":                          (*trial).changeVote,
		"a job whose OSCAR answers late is not taken for gone":                        (*trial).lateLists,
		"a pause beside a change loses neither":                                       (*trial).pauseBesides,
		"a member that is removed goes, and comes again":                              (*trial).leaves,
		"a vote is for the question that it answers":                                  (*trial).oldVote,
		"a service that vanishes is made again":                                       (*trial).vanish,
		"a service that OSCAR does not show at first is created":                      (*trial).half,
		"a job of a syncer that stops and starts is started once":                     (*trial).stopsWithJob,
		"a job of a syncer that loses its session is started once":                    (*trial).silentWithJob,
		"a submission whose answers from etcd are lost is told when it is sent again": (*trial).lostSubmission,
		"a watch of jobs that breaks tells the last state of each":                    (*trial).brokenWatch,
		"a job is counted once": (*trial).counted,
		"a deletion of a failed creation leaves nothing of those before it": (*trial).failedTwice,
		"a service that OSCAR makes after its creation was given up goes":   (*trial).afterAll,
		"a service that OSCAR makes for a syncer that has ended goes":       (*trial).successor,
		"a service whose name OSCAR is late to delete keeps its webhook":    (*trial).stalled,
		"a report that a change has overtaken is not taken":                 (*trial).overtaken,
		"a change while a cluster changes is made":                          (*trial).changeBesides,
		"a service of a syncer that reads no parts is repaired":             (*trial).older,
	}
}

const (
	// trialSoon is longer than a decision takes whose deadline is some seconds, and trialLate than one
	// takes that waits for OSCARs. It is the longest wait that the API takes.
	trialSoon, trialLate = 2 * time.Minute, 10 * time.Minute
	// sessionOver is longer than the session of a syncer outlives it.
	sessionOver = 2 * time.Minute
)

// suite are trials that are made one after another, in one plan.
type suite struct {
	guests, people int
	latency        time.Duration
	origin         bool
	limited        bool
	kubernetes     bool
	revives        bool
	trials         map[string]func(*trial) error
}

// suites are all trials. Those in which etcd goes back to a backup, those with a guest and those with people have
// plans of their own.
func suites() []suite {
	return []suite{
		{trials: trials()}, {trials: restoreTrials()}, {trials: guestTrials(), guests: 1, people: 1}, {trials: endpointTrials()}, {trials: batchTrials()},
		{trials: jobWayTrials()}, {trials: tokenTrials(), people: 1}, {trials: tokenWayTrials(), people: 1}, {trials: serviceTrials()}, {trials: foundTrials(), limited: true}, {trials: unclaimedTrials()},
		{trials: slowTrials(), latency: time.Minute}, {trials: originTrials(), people: 1, origin: true},
		{trials: readmitTrials(), limited: true}, {trials: secretTrials(), people: 1, kubernetes: true},
		{trials: doubtTrials()}, {trials: silentTrials(), latency: oscarsim.RealLatency, revives: true},
	}
}

// AllTrials are plans that make every trial, and nothing else.
func AllTrials() (out []Plan) {
	for _, s := range suites() {
		out = append(out, trialsOf(Shape{Clusters: 3, ControlPlanes: 2, Names: 1, Slots: 2, Delay: time.Millisecond, Latency: s.latency, Guests: s.guests, People: s.people, Origin: s.origin, Limited: s.limited, Kubernetes: s.kubernetes, Revives: s.revives}, s.trials))
	}
	return out
}

func trialsOf(shape Shape, all map[string]func(*trial) error) Plan {
	p := Plan{Shape: shape}
	for _, what := range slices.Sorted(maps.Keys(all)) {
		p.Trials = append(p.Trials, Trial{What: what, Cluster: 1, Plane: 1, Ahead: 3 * time.Hour})
	}
	return p
}

// doing is what a trial does; nil when there is none of the name.
func doing(what string) func(*trial) error {
	for _, s := range suites() {
		if do := s.trials[what]; do != nil {
			return do
		}
	}
	return nil
}

// try makes the trials of a plan.
func (p *player) try() {
	p.t.Helper()
	if p.plan.fills() || !p.restore.at.IsZero() {
		return // etcd refuses creations until it is compacted, or people have yet to decide
	}
	for i, plan := range p.plan.Trials {
		id := clusterID(plan.Cluster)
		one := &trial{
			Trial: plan, player: p, ctx: p.t.Context(), number: i, name: fmt.Sprintf("trial%d", i),
			cluster: p.w.Cluster(id), sim: p.w.Cluster(id).Sim, api: p.planes[0].client,
		}
		// The control planes and syncers may have been started a moment ago.
		<-time.After(sessionOver)
		do := doing(plan.What)
		if do == nil {
			p.t.Errorf("there is no trial %q", plan.What)
			continue
		}
		if err := do(one); err != nil {
			p.t.Errorf("trial: %s (cluster %s): %v", plan.What, id, err)
		}
		one.sim.ClearFaults()
	}
}

// trial is one that is made.
type trial struct {
	Trial
	player  *player
	ctx     context.Context
	number  int
	name    string
	cluster *world.Cluster
	sim     *oscarsim.Sim
	api     *client.Client
}

// service is one on every cluster that does not leave.
func (t *trial) service(script string, change func(*oscar.Federation)) *oscar.Service {
	s := t.player.users.definition(t.name, t.player.users.clusters[0], Free{Op: freeCreate, Topology: "mesh", Members: 1<<t.player.plan.Shape.Clusters - 1})
	s.Script = "#!/bin/sh\n# " + script + "\n"
	if change != nil {
		change(s.Federation)
	}
	return s
}

// create creates a service, and waits for the outcome.
func (t *trial) create(limit time.Duration, change func(*oscar.Federation)) error {
	ctx, cancel := context.WithTimeout(t.ctx, 2*limit)
	defer cancel()
	_, err := t.api.CreateService(ctx, t.service("first", change), client.CreateOptions{Wait: limit})
	if e, ok := errors.AsType[*client.Error](err); ok && len(e.Problem.Violations) > 0 {
		return fmt.Errorf("%w: %+v", err, e.Problem.Violations)
	}
	return err
}

// refused demands that a creation was refused with a code.
func refused(err error, code string) error {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code() == code {
		return nil
	}
	return fmt.Errorf("it is answered with %v, and not with %s", err, code)
}

// await waits until something is so, within the bound.
func (t *trial) await(what string, ok func() bool) error { return awaitEach(look, what, ok) }

func awaitEach(pause time.Duration, what string, ok func() bool) error {
	for began := time.Now(); !ok(); <-time.After(pause) {
		if time.Since(began) > bound {
			return fmt.Errorf("it is not so after %v: %s", bound, what)
		}
	}
	return nil
}

// everywhere says whether something is so on every cluster that does not leave.
func (t *trial) everywhere(is func(*oscarsim.Sim) bool) bool {
	for i := range t.player.plan.Shape.Clusters {
		if !is(t.player.w.Cluster(clusterID(i)).Sim) {
			return false
		}
	}
	return true
}

// stands says whether the service is on a cluster.
func (t *trial) stands(sim *oscarsim.Sim) bool { _, ok := sim.Service(t.name); return ok }

// gone says whether it is not there.
func (t *trial) gone(sim *oscarsim.Sim) bool { return !t.stands(sim) }
