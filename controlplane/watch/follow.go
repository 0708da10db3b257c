package watch

import (
	"context"
	"reflect"
	"slices"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// follower follows the state for one watcher.
type follower struct {
	c      *Controller
	caller identity.Caller
	q      Query
	w      Watcher
	epoch  string
	// revision is the one up to which the watcher was told everything.
	revision int64
	// jobs is nil unless jobs are watched.
	jobs *jobs.Follower
}

// atOnce is how many federations or clusters are compared while the state is locked.
const atOnce = 32

// all tells everything that there is at the revision.
func (f *follower) all(ctx context.Context) error {
	reader := f.c.cfg.State.At(f.revision)
	var uids, ids []string
	if err := reader.Read(func(p *view.Past) {
		if f.q.has(v1.EventFederation) || f.q.has(v1.EventService) {
			for at := range p.Federations(view.FederationPos{}) {
				if rec := p.Federation(at.UID).Rec; f.caller.MayRead(rec.Owner, rec.Visibility, rec.AllowedUsers) {
					uids = append(uids, at.UID)
				}
			}
		}
		if f.q.has(v1.EventCluster) {
			ids = slices.AppendSeq(ids, p.Clusters(""))
		}
	}); err != nil {
		return crossing(err)
	}
	if err := f.compare(ctx, reader, uids, ids, false); err != nil {
		return err
	}
	if _, err := f.tellJobs(ctx, 0); err != nil {
		return err
	}
	_, err := f.tellEvents(0)
	return err
}

// step tells what has changed after the revision, and moves it on.
func (f *follower) step(ctx context.Context) error {
	reader := f.c.cfg.State.At(f.revision)
	var uids, ids []string
	var to int64
	if err := reader.Read(func(p *view.Past) {
		to = p.Now.Revision
		if !p.Changed() {
			return
		}
		if f.q.has(v1.EventFederation) || f.q.has(v1.EventService) {
			uids = p.ChangedFederations()
		}
		if f.q.has(v1.EventCluster) {
			ids = p.ChangedClusters()
		}
	}); err != nil {
		return crossing(err)
	}
	if err := f.compare(ctx, reader, uids, ids, true); err != nil {
		return err
	}
	if to == f.revision {
		return nil
	}
	changed, err := f.tellJobs(ctx, f.revision)
	if err != nil {
		return err
	}
	happened, err := f.tellEvents(f.revision)
	if err != nil {
		return err
	}
	moved := len(uids)+len(ids)+changed+happened > 0
	if f.revision = to; !moved {
		return nil
	}
	return f.bookmark()
}

func (f *follower) bookmark() error {
	return f.w.Bookmark(v1.Bookmark{Revision: f.revision, Epoch: f.epoch})
}

// compare tells how federations and clusters look now or, when since is set, how they look
// different from what they were at the reader's revision. What changes meanwhile may be told
// twice: the next step begins at the same revision.
func (f *follower) compare(ctx context.Context, reader *view.PastReader, uids, ids []string, since bool) error {
	for some := range slices.Chunk(uids, atOnce) {
		if err := f.tell(ctx, reader, func(p *view.Past) (events []v1.Event) {
			for _, uid := range some {
				events = append(events, f.ofFederation(p, uid, since)...)
			}
			return events
		}); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(ids, atOnce) {
		if err := f.tell(ctx, reader, func(p *view.Past) (events []v1.Event) {
			for _, id := range some {
				events = append(events, f.ofCluster(p, id, since)...)
			}
			return events
		}); err != nil {
			return err
		}
	}
	return nil
}

// tell gives the watcher the events that look finds.
func (f *follower) tell(ctx context.Context, reader *view.PastReader, look func(*view.Past) []v1.Event) error {
	var events []v1.Event
	var revision int64
	if err := reader.Read(func(p *view.Past) { events, revision = look(p), p.Now.Revision }); err != nil {
		return crossing(err)
	}
	for _, e := range events {
		e.Revision = revision
		if err := f.w.Event(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// shown is what a caller sees of a federation: itself, and its services by their names.
type shown struct {
	federation *v1.Federation
	services   map[string]v1.ServiceStatus
}

// ofFederation are the events of one federation and its services.
func (f *follower) ofFederation(p *view.Past, uid string, since bool) []v1.Event {
	now := f.show(p.Now.Federations.Get(uid), func(r view.Versioned[record.Federation]) view.Federation { return p.Now.Show(r.Rec, r.Rev).Federation })
	var was shown
	if since {
		was = f.show(p.Federation(uid), p.Show)
	}
	var events []v1.Event
	switch {
	case now.federation != nil && (was.federation == nil || !reflect.DeepEqual(*was.federation, *now.federation)):
		events = append(events, v1.Event{Kind: v1.EventFederation, Name: uid, Federation: now.federation})
	case now.federation == nil && was.federation != nil:
		events = append(events, v1.Event{Kind: v1.EventFederation, Name: uid, Deleted: true})
	}
	for _, name := range sortedNames(was.services, now.services) {
		before, had := was.services[name]
		after, has := now.services[name]
		switch {
		case has && (!had || !reflect.DeepEqual(before, after)):
			events = append(events, v1.Event{Kind: v1.EventService, Name: name, Service: &after})
		case had && !has:
			events = append(events, v1.Event{Kind: v1.EventService, Name: name, Deleted: true})
		}
	}
	return events
}

// show is what the caller sees of a federation; nothing when the caller may not see it, or it does
// not match.
func (f *follower) show(r view.Versioned[record.Federation], render func(view.Versioned[record.Federation]) view.Federation) (out shown) {
	if r.Rec == nil || !f.caller.MayRead(r.Rec.Owner, r.Rec.Visibility, r.Rec.AllowedUsers) || !f.q.Filter.MatchesOwner(r.Rec.Owner) {
		return out
	}
	rendered := render(r)
	wire := rendered.Wire(f.c.cfg.Now())
	q := &f.q.Filter
	if f.q.has(v1.EventFederation) && q.MatchesPhase(wire.Phase) && (q.ClusterID == "" || slices.ContainsFunc(wire.Replicas, func(m v1.Replica) bool { return m.ClusterID == q.ClusterID })) {
		out.federation = &wire
	}
	if !f.q.has(v1.EventService) || r.Rec.Phase == record.PhaseDeleting || r.Rec.Phase.Result() {
		return out
	}
	out.services = map[string]v1.ServiceStatus{}
	for _, m := range wire.Replicas {
		if m.Status == nil || q.ClusterID != "" && m.ClusterID != q.ClusterID || !q.MatchesPhase(m.Status.Phase) {
			continue
		}
		out.services[m.ClusterID+"/"+m.ServiceName] = wire.ServiceStatus(m)
	}
	return out
}

// ofCluster is the event of one cluster; none when the caller sees no difference.
func (f *follower) ofCluster(p *view.Past, id string, since bool) []v1.Event {
	match := func(c *clusters.Cluster) *clusters.Cluster {
		q := &f.q.Filter
		if c == nil || !q.MatchesLabels(c.Labels) || !q.MatchesPhase(c.State) || q.ClusterID != "" && q.ClusterID != id {
			return nil
		}
		return c
	}
	now := match(f.c.cfg.Clusters.ShowNow(p.Now, id, f.caller))
	var was *clusters.Cluster
	if since {
		was = match(f.c.cfg.Clusters.Show(p, id, f.caller))
	}
	switch {
	case now != nil && (was == nil || !reflect.DeepEqual(was.Cluster, now.Cluster)):
		return []v1.Event{{Kind: v1.EventCluster, Name: id, Cluster: &now.Cluster}}
	case now == nil && was != nil:
		return []v1.Event{{Kind: v1.EventCluster, Name: id, Deleted: true}}
	}
	return nil
}

func sortedNames(all ...map[string]v1.ServiceStatus) []string {
	var names []string
	for _, some := range all {
		for name := range some {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
