package jobs

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Members offer Jobs that wait. The dispatcher answers freeze when another member would take
// the Job now. A frozen Job becomes a queued job. When the OSCAR of another member has it, the
// offering member deletes its Job; when no other member takes it, the Job goes on where it is.

// freezesAtOnce bounds the Jobs of one federation that are frozen, or about to be, and that no other
// member has yet. Those that their syncers do not freeze in time count for their own clusters only: a
// cluster that is away holds up none of the others.
const freezesAtOnce = 20

// offerStep is the next step about the offers of a job; nil for none.
func offerStep(v *view.View, id string, cfg stepConfig) *step {
	for _, cluster := range slices.Sorted(v.Jobs.Offered.Of(id)) {
		sit, ok := situationOfOffer(v, id, cluster, cfg.seen, cfg.now)
		if !ok {
			continue
		}
		sit.full = cfg.tooMany(v, &sit)
		if d := decideOffer(sit); d.name != "" {
			return stepOfOffer(v, id, sit, d)
		}
	}
	return nil
}

// tooMany says whether one more offered job would exceed a limit of jobs in flight, or, when its cluster
// was not asked to freeze it in this epoch, the number of those that are frozen.
func (c *Controller) tooMany(v *view.View, sit *offerSituation, taken taking) bool {
	f := v.Federations.Get(sit.offer.Federation).Rec
	if f == nil || sit.job != nil && !sit.job.State.Ended() { // that one is counted
		return false
	}
	j := record.Job{Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner}
	asked := sit.answer != "" && !sit.stale
	return c.refusedFor(&j, taken.more.with(loadOf(v, &j), &j)) != nil ||
		!asked && sit.offer.State == record.OfferFrozen && frozen(v)[f.UID]+taken.frozen[f.UID] >= freezesAtOnce
}

// taking counts the offered Jobs that one transaction is about to take.
type taking struct {
	// frozen are all of them, by federation, and more those that are not in flight yet.
	frozen map[string]int
	more   inFlight
}

func newTaking() taking {
	return taking{frozen: map[string]int{}, more: newInFlight()}
}

func (n taking) add(p *step) {
	n.frozen[p.next.Federation]++
	if p.was.Job == "" || p.was.State.Ended() {
		n.more.add(&p.next)
	}
}

// frozen counts, by federation, the jobs that are frozen at a member and that no other one has.
func frozen(v *view.View) map[string]int {
	out := map[string]int{}
	for id := range v.Jobs.Frozen.Keys() {
		if j := v.Jobs.ByID.Get(id).Rec; j != nil && j.State == record.JobQueued {
			out[j.Federation]++
		}
	}
	return out
}

// situationOfOffer is false when the cluster has neither an offer of the job nor anything left of
// one, or no replica that the offer can belong to.
func situationOfOffer(v *view.View, id, cluster string, seen *clock.FirstSeen, now time.Time) (offerSituation, bool) {
	n := v.Nodes.Get(cluster)
	sit := offerSituation{job: v.Jobs.ByID.Get(id).Rec, cluster: cluster, now: now, restored: v.Epoch() != "", crowded: n.Answers.Len() > maxAnswers}
	o := n.Offers.Get(id).Rec
	gone := id + "/gone/" + cluster
	switch sit.gone = o == nil; {
	case !sit.gone:
		sit.offer = *o
		seen.Forget(gone)
	case v.Session(cluster) != 0:
		sit.goneSince = seen.Since(gone, strconv.FormatInt(v.Session(cluster), 10), now)
	}
	if sit.job != nil && sit.job.FrozenAt != nil {
		sit.frozenSince = seen.Since(id+"/frozen", sit.job.FrozenAt.String(), now)
	}
	if a := n.Answers.Get(id).Rec; a != nil {
		sit.answer, sit.stale = a.Answer, a.Epoch != v.Epoch()
	}
	f := v.Federations.Get(sit.offer.Federation).Rec
	sit.unknown = f == nil
	sit.disbanded = f == nil || f.Phase != record.PhaseReady && record.Strange(f) == ""
	if j := sit.job; j != nil {
		standing := !j.State.Ended() && j.State != record.JobQueued && j.Place != nil
		sit.ours = standing && j.Place.ClusterID == cluster
		if standing && j.Place.ClusterID != cluster && j.Place.URL == "" {
			r := v.Nodes.Get(j.Place.ClusterID).Reports.Get(view.AttemptID{Job: id, Attempt: j.Attempt}).Rec
			sit.posted = r != nil && confirmed(r.State)
		}
	}
	if over := sit.gone || o.State != record.OfferWaiting && o.State != record.OfferFrozen; over {
		return sit, true
	}
	// Only a Job of a federated service there is taken.
	d := n.Desired.Get(o.Service).Rec
	sit.listed = o.Held && f != nil && allListed(v, f)
	valid := d != nil && d.UID == o.UID && d.Federation == o.Federation
	return sit, valid && (sit.job == nil || sit.job.Federation == o.Federation)
}

// confirmed says whether OSCAR has, or had, the attempt for certain.
func confirmed(state record.JobState) bool {
	switch state {
	case record.JobSubmitted, record.JobRunning, record.JobSucceeded, record.JobFailed:
		return true
	}
	return false
}

func stepOfOffer(v *view.View, id string, sit offerSituation, d offerDecision) *step {
	j := v.Jobs.ByID.Get(id)
	n := v.Nodes.Get(sit.cluster)
	offerKey, answerKey := record.OfferKey(sit.cluster, id), record.OfferAnswerKey(sit.cluster, id)
	out := &step{name: d.name, rev: j.Rev, watch: map[string]int64{offerKey: n.Offers.Get(id).Rev, answerKey: n.Answers.Get(id).Rev}, silent: true}
	if j.Rec != nil {
		out.was, out.next = *j.Rec, *j.Rec
	}
	out.next.Job = id
	at := record.At(sit.now)
	if d.answer != "" {
		out.put = append(out.put, gate.Staged{Key: answerKey, Rec: answer(v, d.answer, j.Rec, at)})
	}
	if d.drop {
		out.remove = append(out.remove, answerKey)
	}
	if d.thaw {
		out.silent, out.next.Frozen, out.next.FrozenAt = false, nil, nil
		touch(&out.next, at)
	}
	if d.back {
		giveBack(v, out, at)
	}
	if d.take {
		takeOffer(v, out, sit, at)
	}
	if d.cancel {
		cancelFrozen(v, out, sit)
	}
	return out
}

// cancelFrozen ends a job whose present attempt is frozen: nothing of it has ever run.
func cancelFrozen(v *view.View, out *step, sit offerSituation) {
	out.dropAttempt(v, sit)
	out.silent, out.next = false, situation{job: *sit.job, now: sit.now}.end(record.JobCancelled, "", "").next
	out.remove = append(out.remove, record.EventKey(out.next.Job))
	out.put = append(out.put, gate.Staged{Key: record.OfferAnswerKey(sit.cluster, out.next.Job), Rec: answer(v, record.OfferRelease, &out.next, out.next.ChangedAt)})
}

// dropAttempt takes away the present attempt, which the offer is of.
func (p *step) dropAttempt(v *view.View, sit offerSituation) {
	j := sit.job
	report := v.Nodes.Get(sit.cluster).Reports.Get(view.AttemptID{Job: j.Job, Attempt: j.Attempt})
	old := stepOf(v, view.Versioned[record.Job]{Rec: j, Rev: p.rev}, report.Rev, decision{drop: true})
	p.remove = append(p.remove, old.remove...)
	maps.Copy(p.watch, old.watch)
}

// answer is what is written to an offer of a job; j is nil when the store does not know it.
func answer(v *view.View, word record.OfferWord, j *record.Job, at record.Time) record.OfferAnswer {
	out := record.OfferAnswer{V: record.Version, Answer: word, AnsweredAt: at, Epoch: v.Epoch()}
	switch word {
	case record.OfferFreeze:
		out.Recipient = v.Meta.Recipient
	case record.OfferRelease:
		out.Cancelled = j != nil && j.State == record.JobCancelled && j.Cancel != ""
	}
	return out
}

// takeOffer makes a frozen Job a queued job.
func takeOffer(v *view.View, out *step, sit offerSituation, at record.Time) {
	o := sit.offer
	place := record.Place{ClusterID: sit.cluster, ServiceName: o.Service, UID: o.UID, ClusterUID: v.ClusterUID(sit.cluster), Name: o.Name}
	if j := sit.job; j != nil && sit.ours {
		// The offer replaces the attempt there.
		before := situation{job: *j, now: sit.now}
		out.next = before.requeued(record.Attempt{State: record.JobSubmitted, Reason: record.JobWaited, Message: "it waited there for too long"})
		out.dropAttempt(v, sit)
	} else {
		f := v.Federations.Get(o.Federation).Rec
		if sit.job == nil {
			out.next = record.Job{
				V: record.Version, Job: out.next.Job, Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner, Cluster: sit.cluster,
				Service: o.Service, Offered: true, RequestID: out.next.Job, AcceptedAt: at,
			}
		}
		out.next.State, out.next.EndedAt, out.next.Cancel = record.JobQueued, nil, ""
		touch(&out.next, at)
		out.event = record.OfferedEventKey(sit.cluster, out.next.Job)
	}
	out.silent = false
	out.next.Frozen, out.next.FrozenAt = &place, &at
	out.next.Reason, out.next.Message = "", ""
	if !slices.Contains(out.next.Visited, sit.cluster) {
		out.next.Visited = append(slices.Clone(out.next.Visited), sit.cluster)
	}
	if sit.answer != "" && !sit.stale {
		out.next.Epoch = v.Epoch()
	} else if sit.job == nil {
		// It was not asked for in this epoch: another member may have it.
		out.next.Epoch = unknownEpoch
		if v.Epoch() == "" {
			out.next.Epoch = ""
		}
	}
	out.put = append(out.put, gate.Staged{Key: record.OfferAnswerKey(sit.cluster, out.next.Job), Rec: answer(v, record.OfferFreeze, &out.next, at)})
}

// unknownEpoch is the Job.Epoch of a job whose epoch was lost with the store's history.
const unknownEpoch = "lost"

// giveBack lets a frozen job go on where it is. A job that was assigned there is assigned there
// again, as another attempt with the existing Job; an offered job ends as returned.
func giveBack(v *view.View, out *step, at record.Time) {
	next := &out.next
	place := *next.Frozen
	out.silent = false
	next.Frozen, next.FrozenAt, next.ChangedAt, next.NotBefore, next.Tries = nil, nil, at, nil, 0
	if next.Offered {
		next.State, next.EndedAt, next.Reason, next.Message = record.JobReturned, &at, record.JobNoCandidate, "nobody else took it"
		out.remove = append(out.remove, record.EventKey(next.Job))
		return
	}
	// The Job may start at any moment, so the attempt counts as claimed.
	next.State, next.Attempt, next.Place, next.Posted, next.Epoch = record.JobAssigned, next.Attempt+1, &place, true, v.Epoch()
	next.Reason, next.Message = record.JobNoCandidate, "nobody else took it; it goes on where it was"
	out.reseal = v.SealsTo(place.ClusterID)
	out.put = append(out.put, gate.Staged{Key: record.AssignmentKey(place.ClusterID, next.Job, next.Attempt), Rec: assignmentOf(next)})
}

// assignmentOf is the assignment of a job's present attempt.
func assignmentOf(j *record.Job) record.Assignment {
	return record.Assignment{
		V: record.Version, Job: j.Job, Attempt: j.Attempt, Federation: j.Federation, Service: j.Place.ServiceName,
		UID: j.Place.UID, RequestID: j.RequestID, Name: j.Place.Name, AssignedAt: j.ChangedAt, Posted: j.Posted, Epoch: j.Epoch,
	}
}

// completeSteps opens and seals the events that steps need. A step that cannot be completed is
// left out.
func (c *Controller) completeSteps(ctx context.Context, steps []*step) ([]*step, error) {
	var keys []string
	for _, p := range steps {
		switch {
		case p.event != "":
			keys = append(keys, p.event)
		case p.reseal.Key != "":
			keys = append(keys, record.EventKey(p.id()))
		}
	}
	if len(keys) == 0 {
		return steps, nil
	}
	view, err := c.store.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]*step, 0, len(steps))
	for _, p := range steps {
		ok := true
		switch {
		case p.event != "":
			c.completeTake(view, p)
		case p.reseal.Key != "":
			ok = c.completeBack(view, p)
		}
		if ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// completeTake copies the event of an offered Job. An offer without a valid event is answered
// with restore.
func (c *Controller) completeTake(v store.View, p *step) {
	body, err := c.openAt(v, p.event, p.id())
	if err == nil {
		err = checkEvent(body)
	}
	var sealed string
	if err == nil {
		sealed, err = c.sealer.Seal(seal.Header{Purpose: seal.PurposeEvent, UID: p.id()}, body, c.sealer.Own())
	}
	if err != nil {
		c.cfg.Logger.Warn("the event of an offered Job cannot be taken", "job", p.id(), "error", err)
		*p = step{name: "restore", rev: p.rev, was: p.was, next: p.was, watch: p.watch, silent: true, put: p.put}
		p.next.Job = p.was.Job
		for i := range p.put {
			if a, ok := p.put[i].Rec.(record.OfferAnswer); ok {
				a.Answer, a.Recipient, a.Message = record.OfferRestore, "", "its event cannot be read"
				p.put[i].Rec = a
			}
		}
		return
	}
	p.next.Size, p.next.BucketEvent = len(body), oscar.BucketEvent(body)
	p.put = append(p.put, gate.Staged{Key: record.EventKey(p.id()), Rec: record.Event{V: record.Version, Sealed: sealed}})
}

// completeBack seals the event to the cluster where the attempt goes on.
func (c *Controller) completeBack(v store.View, p *step) bool {
	j := &p.next
	body, err := c.openAt(v, record.EventKey(j.Job), j.Job)
	var sealed string
	if err == nil {
		sealed, err = c.sealer.Seal(seal.Header{Purpose: seal.PurposeEvent, Cluster: j.Place.ClusterID, UID: j.Job, Generation: int64(j.Attempt)}, body, p.reseal)
	}
	if err != nil {
		c.cfg.Logger.Error("a job cannot be given back", "job", j.Job, "error", err)
		return false
	}
	p.put = append(p.put, gate.Staged{Key: record.AssignedEventKey(j.Place.ClusterID, j.Job, j.Attempt), Rec: record.Event{V: record.Version, Sealed: sealed}})
	return true
}

// offerAt names an offer, or the answer to one.
type offerAt struct{ cluster, job string }

// ofCluster is a federation at one cluster.
type ofCluster struct{ federation, cluster string }

// someOffers are the offers of each cluster, offersAtOnce at most, and others each time: the order of a
// map begins anywhere. An honest syncer has fewer; one that has more holds up itself alone.
func someOffers(v *view.View) iter.Seq2[offerAt, *record.Offer] {
	return someOf(v, func(n view.Node) view.Table[string, view.Versioned[record.Offer]] { return n.Offers })
}

// someAnswers are the answers to offers, as someOffers.
func someAnswers(v *view.View) iter.Seq2[offerAt, *record.OfferAnswer] {
	return someOf(v, func(n view.Node) view.Table[string, view.Versioned[record.OfferAnswer]] { return n.Answers })
}

func someOf[T any](v *view.View, of func(view.Node) view.Table[string, view.Versioned[T]]) iter.Seq2[offerAt, *T] {
	return func(yield func(offerAt, *T) bool) {
		for cluster := range v.Jobs.Offering.Keys() {
			left := offersAtOnce
			for job, rec := range of(v.Nodes.Get(cluster)).All() {
				if left--; left < 0 {
					break
				}
				if !yield(offerAt{cluster, job}, rec.Rec) {
					return
				}
			}
		}
	}
}

// waitingOffers are those of some offers that wait for an answer, in a fixed order.
func waitingOffers(v *view.View) (out []offerAt) {
	for w, o := range someOffers(v) {
		a := v.Nodes.Get(w.cluster).Answers.Get(w.job).Rec
		if o != nil && o.State == record.OfferWaiting && (a == nil || a.Epoch != v.Epoch()) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b offerAt) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.cluster, b.cluster))
	})
	return out
}

// freezes counts the Jobs that are frozen, or about to be: by federation those that hold up others, and
// by federation and cluster those that it has not frozen yet.
func (p *round) freezes(v *view.View) (under map[string]int, there map[ofCluster]int) {
	under, there = frozen(v), map[ofCluster]int{}
	for cluster := range v.Jobs.Offering.Keys() {
		n := v.Nodes.Get(cluster)
		for job, a := range n.Answers.All() {
			o, j := n.Offers.Get(job).Rec, v.Jobs.ByID.Get(job).Rec
			if a.Rec == nil || a.Rec.Answer != record.OfferFreeze || a.Rec.Epoch != v.Epoch() || o == nil || j != nil && j.Frozen != nil {
				continue
			}
			there[ofCluster{o.Federation, cluster}]++
			if asked := p.seen.Since(job+"/freeze/"+cluster, a.Rec.AnsweredAt.String(), p.now); p.now.Sub(asked) <= freezeTimeout {
				under[o.Federation]++
			}
		}
	}
	return under, there
}

// answerOffers answers freeze to the waiting offers that another member would take now, up to
// freezesAtOnce for each federation.
func (p *round) answerOffers(v *view.View) {
	under, there := p.freezes(v)
	for _, w := range waitingOffers(v) {
		if len(p.steps)+len(p.notes) >= assignAtOnce {
			p.more = true
			return
		}
		uid := v.Nodes.Get(w.cluster).Offers.Get(w.job).Rec.Federation
		at := ofCluster{uid, w.cluster}
		if max(under[uid], there[at]) < freezesAtOnce && p.freeze(v, w) {
			under[uid]++
			there[at]++
		}
	}
}

// offerClass has what decides which members may take an offered Job.
type offerClass struct {
	federation string
	class      view.Class
}

// freeze answers one offer if another member would take the Job now.
func (p *round) freeze(v *view.View, w offerAt) bool {
	sit, ok := situationOfOffer(v, w.job, w.cluster, p.seen, p.now)
	if !ok || sit.disbanded || p.tooMany(v, &sit) || sit.job != nil && (!sit.ours && sit.job.State != record.JobReturned || sit.ours && sit.job.Cancel != "") {
		return false
	}
	uid := sit.offer.Federation
	fl := p.candidatesOf(v, v.Federations.Get(uid).Rec)
	if fl == nil || fl.held || fl.older && v.Epoch() != "" || v.Jobs.Queued.Get(uid).Len() > 0 && p.blocked[uid] {
		return false
	}
	probe := record.Job{Job: w.job, Federation: uid, Cluster: w.cluster, Service: sit.offer.Service, BucketEvent: sit.offer.BucketEvent}
	if sit.job != nil {
		probe = *sit.job
	}
	probe.Frozen = &record.Place{ClusterID: w.cluster, ServiceName: sit.offer.Service}
	if !slices.Contains(probe.Visited, w.cluster) {
		probe.Visited = append(slices.Clone(probe.Visited), w.cluster)
	}
	class := offerClass{uid, view.ClassOf(&probe)}
	if p.unwanted[class] {
		return false
	}
	p.choices++
	_, d := fl.choose(&probe)
	if d.Chosen == "" {
		p.unwanted[class] = true // in one round members only get fuller
		return false
	}
	for i := range fl.snapshot.Candidates {
		if c := fl.snapshot.Candidates[i]; c.Place() == d.Chosen && fl.Members[i].Replica() {
			p.cluster(v, c.Cluster).take(view.AccountOf(&probe), uid, fl.snapshot.Request)
		}
	}
	step := stepOfOffer(v, w.job, sit, offerDecision{name: "freeze", answer: record.OfferFreeze})
	step.watch[record.FederationKey(uid)] = fl.rev
	p.notes = append(p.notes, step)
	return true
}
