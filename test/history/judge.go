package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// bound is how long it may take, once nothing is broken any more, until all that was accepted
	// is decided and done. The slowest OSCARs need it for a queue of creates and deletes.
	bound = 2 * time.Hour
	// look is the first pause between two looks at what is not done, and mostLook the longest.
	look, mostLook = 5 * time.Second, 2 * time.Minute
)

// heal ends what the plan has not ended: faults of OSCARs. Its others are over by then.
func (p *player) heal() {
	for i := range p.plan.Shape.All() {
		p.w.Cluster(clusterID(i)).Sim.ClearFaults()
	}
}

// resumeAll ends the pauses of services, and says which it could not end yet. A restore may bring one back.
func (p *player) resumeAll(ctx context.Context) (open []string) {
	api := p.planes[0].client
	list, err := api.Federations(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, f := range list {
		if !f.Paused || record.Phase(f.Phase) == record.PhaseDeleting || record.Phase(f.Phase).Result() {
			continue
		}
		_, err := api.Pause(ctx, f.Replicas[0].ServiceName, f.Replicas[0].ClusterID, false)
		open = append(open, fmt.Sprintf("%s is paused: %v", f.GroupID, err))
	}
	return open
}

// judge waits until all is quiet, and holds what is there against what was promised.
func (p *player) judge() {
	p.t.Helper()
	p.outsiders()
	// What was deleted by hand is seen at the next full comparison, and made again.
	if !p.settled("after the faults", p.spacious, p.administer, p.resumeAll, p.settleJobs, p.deleteSilent, p.unsettled, p.different, p.altered, p.jobless) {
		return
	}
	p.secrets()
	p.jobs()
	p.try()
	p.unread()
	p.owned()
	p.intact()
	last := p.current().Caller(askers, func() *client.Client { return p.planes[0].client })
	last.ReadAndDelete(p.t.Context(), 2)
	p.removeAll()
	if p.settled("after all was deleted", p.administer, p.unsettled, p.left, p.secretsLeft) {
		p.empty()
		p.intact()
	}
	if p.plan.Shape.Forgets {
		p.settled("after it was to be forgotten", p.kept)
	}
	for _, s := range p.users.strange {
		p.t.Errorf("an answer that may not be given: %s", s)
	}
	p.conclude(p.t.Context(), p.w.Store)
}

// secrets demands that no service that is desired has lost the value of its secret. A user's PUT of what OSCAR has shown
// empties it, which nobody sees.
func (p *player) secrets() {
	p.t.Helper()
	if slices.ContainsFunc(p.plan.Steps, func(s Step) bool { return s.Local != nil && s.Local.Op == localEdit }) {
		return
	}
	items, _, err := p.w.Store.List(p.t.Context(), record.ClusterTreePrefix)
	if err != nil {
		p.t.Error(err)
	}
	for _, kv := range items {
		ref := record.ParseKey(kv.Key)
		if ref.Kind != record.KindDesiredService {
			continue
		}
		if d, err := store.Decode[record.Desired](kv); err != nil || d.Intent != record.IntentApply {
			continue
		}
		view, _ := p.w.Cluster(ref.Cluster).Sim.Service(ref.Name)
		if value, has := view.Secrets["KEY"]; has && value != secret {
			p.t.Errorf("%s/%s has the secret %q", ref.Cluster, ref.Name, value)
		}
	}
}

// settled waits until nothing is open, within the bound.
func (p *player) settled(when string, parts ...func(context.Context) []string) bool {
	p.t.Helper()
	began := time.Now()
	var open []string
	for pause := look; time.Since(began) < bound; pause = min(pause*5/4, mostLook) {
		open = nil
		p.lookAfter(p.t.Context())
		for _, part := range parts {
			open = append(open, part(p.t.Context())...)
		}
		if len(open) == 0 {
			return true
		}
		<-time.After(pause)
	}
	p.t.Errorf("%s, %v later, is still open: %s", when, bound, strings.Join(open, "; "))
	return false
}

// spacious says what keeps etcd from taking everything again, once what filled it is gone.
func (p *player) spacious(ctx context.Context) []string {
	if !p.plan.fills() {
		return nil
	}
	info, err := p.planes[0].client.Info(ctx)
	switch {
	case err != nil:
		return []string{err.Error()}
	case info.Etcd == nil || info.Etcd.Space != string(store.SpaceOK):
		return []string{fmt.Sprintf("space in etcd: %+v", info.Etcd)}
	}
	return nil
}

// unsettled says what is under way.
func (p *player) unsettled(ctx context.Context) (open []string) {
	list, err := p.planes[0].client.Federations(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, f := range list {
		if phase := record.Phase(f.Phase); phase != record.PhaseReady && !phase.Result() {
			open = append(open, fmt.Sprintf("%s is %s: %s", f.GroupID, phase, troubles(f)))
		}
	}
	items, _, err := p.w.Store.List(ctx, record.Root)
	if err != nil {
		return []string{err.Error()}
	}
	present := map[string]bool{}
	for _, kv := range items {
		present[kv.Key] = true
		short := strings.TrimPrefix(kv.Key, record.Root)
		switch record.ParseKey(kv.Key).Kind {
		case record.KindFederation:
			f, err := store.Decode[record.Federation](kv)
			if err != nil || f.Phase.InFlight() || f.Phase == record.PhaseDeleting || f.Change != nil || len(f.Leaving) > 0 {
				open = append(open, fmt.Sprintf("%s is %s, change %v, leaving %v", short, f.Phase, f.Change != nil, len(f.Leaving)))
			}
		case record.KindDesiredService:
			if d, err := store.Decode[record.Desired](kv); err != nil || d.Tombstone() {
				open = append(open, short+" is a tombstone")
			}
		case record.KindJob:
			if j, err := store.Decode[record.Job](kv); err != nil || !j.State.Ended() {
				open = append(open, fmt.Sprintf("%s of %s is %s %s: %s", short, j.Federation, j.State, j.Reason, j.Message))
			}
		case record.KindAssignment, record.KindJobReport:
			open = append(open, short)
		}
	}
	for i := range p.plan.Shape.All() {
		if key := record.SessionKey(clusterID(i)); !present[key] {
			open = append(open, "no session of "+clusterID(i))
		}
	}
	return open
}

// troubles are what the API says of the replicas that are not as they should be.
func troubles(f v1.Federation) string {
	var out []string
	for _, r := range f.Replicas {
		if r.Status != nil && r.Status.Phase != string(record.PhaseReady) {
			out = append(out, fmt.Sprintf("%s/%s is %s %s: %s", r.ClusterID, r.ServiceName, r.Status.Phase, r.Status.Reason, r.Status.Message))
		}
	}
	return strings.Join(out, ", ")
}

// different says where an OSCAR is not as the API says.
func (p *player) different(ctx context.Context) (open []string) {
	list, err := p.planes[0].client.Federations(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	wanted := map[string]string{}
	for _, f := range list {
		if f.Phase != string(record.PhaseReady) {
			continue
		}
		for _, r := range f.Replicas {
			at := r.ClusterID + "/" + r.ServiceName
			if wanted[at], err = p.replica(ctx, r.ClusterID, r.ServiceName); err != nil {
				open = append(open, fmt.Sprintf("the API has a replica at %s, and it is not desired: %v", at, err))
			}
		}
	}
	for i := range p.plan.Shape.All() {
		id := clusterID(i)
		sim := p.w.Cluster(id).Sim
		sim.Settle() // work that is late
		for _, name := range sim.Services() {
			view, ok := sim.Service(name)
			uid := view.Annotations[oscar.AnnotationUID]
			at := id + "/" + name
			switch {
			case !ok || uid == "": // somebody else's
			case wanted[at] != uid:
				open = append(open, fmt.Sprintf("%s is replica %s, and is to be %q", at, uid, wanted[at]))
			default:
				delete(wanted, at)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(wanted)) {
		open = append(open, fmt.Sprintf("the API has a replica at %s, and OSCAR has none", at))
	}
	return open
}

// replica is the uid of the replica that is wanted at a place.
func (p *player) replica(ctx context.Context, cluster, service string) (string, error) {
	d, err := p.desired(ctx, cluster, service)
	if err != nil {
		return "", err
	}
	return d.UID, nil
}

// desired is what is desired at a place.
func (p *player) desired(ctx context.Context, cluster, service string) (*record.Desired, error) {
	kv, err := p.w.Store.Get(ctx, record.DesiredServiceKey(cluster, service))
	if err != nil {
		return nil, err
	}
	return store.Decode[record.Desired](kv)
}

// jobs holds every accepted job against what the OSCARs have started.
func (p *player) jobs() {
	p.t.Helper()
	for number, id := range p.users.jobs {
		starts, most := p.w.Starts(event(number)), 1+p.users.replayed[number]
		lost, cancelled := p.lost(p.users.submitted[number]), p.users.cancelled[number]
		if lost || p.lost(cancelled) || p.plan.Restores() && p.drifted {
			most++ // before the restore, and after it: a Job that was deleted leaves no trace
		}
		if p.sweptTooSoon(event(number)) || p.plan.outlastsKeys() && len(p.users.submitted[number]) > 1 {
			most++
		}
		job := p.w.Job(id)
		if job == nil && lost && starts <= most {
			continue
		}
		if job == nil && (p.plan.Shape.Forgets || p.plan.Shape.Month) { // it had ended, as the promises say
			if starts > most {
				p.t.Errorf("event %d was started %d times, and its job is forgotten", number, starts)
			}
			continue
		}
		if job == nil {
			p.t.Errorf("the job of event %d is lost", number)
			continue
		}
		least := 0
		if p.users.replayed[number] == 0 && (job.State == record.JobSucceeded || job.State == record.JobFailed) {
			least = 1
		}
		if starts < least || starts > most {
			p.t.Errorf("event %d was started %d times, and is %s %s: %+v", number, starts, job.State, job.Reason, job.Past)
		}
		// A person may delete a service whose jobs wait, or decide so after a restore.
		deleted := job.Reason == record.JobFederationGone && (number >= eventsOf || p.plan.Restores())
		if job.State == record.JobCancelled && len(cancelled) == 0 && !deleted {
			p.t.Errorf("event %d is cancelled, and nobody has asked for it: %+v", number, job)
		}
	}
}

// intact: what users have stored is there, and no service has come back. A store that has gone back
// brings services back, and what is not of its history is deleted by hand.
func (p *player) intact() {
	p.t.Helper()
	if p.plan.Restores() {
		return
	}
	for _, object := range p.objects.missing(p.w) {
		p.t.Errorf("object %s is gone", object)
	}
	var clusters []*world.Cluster
	for i := range p.plan.Shape.All() {
		clusters = append(clusters, p.w.Cluster(clusterID(i)))
	}
	p.observer.lives(clusters...)
}

// removeAll deletes every service that is left.
func (p *player) removeAll() {
	p.t.Helper()
	list, err := p.planes[0].client.Federations(p.t.Context())
	if err != nil {
		p.t.Errorf("federations: %v", err)
	}
	for _, f := range list {
		if phase := record.Phase(f.Phase); phase == record.PhaseDeleting || phase.Result() {
			continue
		}
		if _, err := p.planes[0].client.DeleteService(p.t.Context(), f.Replicas[0].ServiceName, client.DeleteOptions{ClusterID: f.Replicas[0].ClusterID}); err != nil {
			p.t.Errorf("delete %s, which is %s: %v", f.GroupID, f.Phase, err)
		}
	}
}

// empty demands that nothing of ours is left, in the store or on a cluster.
func (p *player) empty() {
	p.t.Helper()
	items, _, err := p.w.Store.List(p.t.Context(), record.Root)
	if err != nil {
		p.t.Error(err)
	}
	for _, kv := range items {
		switch record.ParseKey(kv.Key).Kind {
		case record.KindDesiredService, record.KindObservedService:
			p.t.Errorf("%s is left", kv.Key)
		case record.KindFederation:
			if f, err := store.Decode[record.Federation](kv); err != nil || !f.Phase.Result() {
				p.t.Errorf("%s is left", kv.Key)
			}
		}
	}
	for i := range p.plan.Shape.All() {
		sim := p.w.Cluster(clusterID(i)).Sim
		sim.Settle()
		for _, name := range sim.Services() {
			if view, _ := sim.Service(name); view.Annotations[oscar.AnnotationUID] != "" {
				p.t.Errorf("%s/%s is left, replica %s", clusterID(i), name, view.Annotations[oscar.AnnotationUID])
			}
		}
	}
}
