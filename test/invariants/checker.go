package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// checker holds the store as it stood after the last revision, what is in the
// making at the present one, and what must be remembered of the past.
type checker struct {
	// stood is the revision up to which everything was taken over from a backup; 0 for none.
	stood int64
	// stoodIn is the epoch that was taken over with it.
	stoodIn string
	opts    Options
	needles []needle
	report  *Report
	told    map[Violation]bool

	keys map[string]*entry
	// Indexes of keys by federation uid, place and owned name.
	desiredOf map[string]map[string]bool // federation uid -> desired keys
	at        map[place]map[string]bool  // -> federations with a member there
	named     map[name]map[string]bool   // -> federations of that name
	namesOf   map[string]map[string]bool // federation uid -> keys of names that point to it
	batches   map[string]map[string]bool // first federation of a batch -> all of them, also those that went
	past      past
	jobs      jobsIndex
	parts     patchesOf

	// What follows belongs to the revision that is looked at.
	revision int64
	changes  []*change
	changed  map[string]*change
}

// name is a group_id of an owner.
type name struct{ owner, group string }

// rule is one promise.
type rule struct {
	name Rule
	// step judges what a revision changed.
	step func(c *checker)
	// stands judges one federation as it stands after a revision; was is its
	// record when the revision removed it.
	stands func(c *checker, uid string, f, was *record.Federation)
}

// rules in the order in which they look.
func rules() []rule {
	return []rule{
		{name: RuleUnique, step: uniqueStep, stands: uniqueStands},
		{name: RuleAtomic, step: atomicStep, stands: atomicStands},
		{name: RuleAtomic, step: batchStep},
		{name: RuleGraph, stands: graphStands},
		{name: RuleWriters, step: writersStep},
		{name: RuleWriters, step: auditStep},
		{name: RuleAbsence, step: absenceStep},
		{name: RuleAbsence, step: rollbackStep},
		{name: RuleOurs, step: oursStep},
		{name: RuleData, step: dataStep},
		{name: RuleJobs, step: jobsStep},
		{name: RuleSecrets, step: secretsStep},
		{name: RuleSecrets, step: tokensStep},
		{name: RuleStatus, step: statusStep},
		{name: RuleRequests, step: requestsStep},
		{name: RuleVotes, step: votesStep},
		{name: RuleClusters, step: clustersStep, stands: clustersStand},
		{name: RuleJoins, step: joinsStep},
		{name: RuleEpochs, step: epochsStep},
	}
}

func newChecker(opts Options) (*checker, error) {
	needles, err := needlesOf(opts.Secrets)
	if err != nil {
		return nil, err
	}
	return &checker{
		opts: opts, needles: needles,
		report:    newReport(0),
		told:      map[Violation]bool{},
		keys:      map[string]*entry{},
		desiredOf: map[string]map[string]bool{},
		at:        map[place]map[string]bool{},
		named:     map[name]map[string]bool{},
		namesOf:   map[string]map[string]bool{},
		batches:   map[string]map[string]bool{},
		past:      newPast(),
		jobs:      newJobsIndex(),
	}, nil
}

// step takes over one revision and judges it.
func (c *checker) step(revision int64, events []store.Event) {
	c.revision, c.changes, c.changed = revision, nil, map[string]*change{}
	for _, ev := range events {
		c.apply(ev)
		c.jobs.apply(c.changes[len(c.changes)-1])
	}
	c.report.Revisions++
	c.report.Last = revision
	federations := c.concerned()
	if c.opts.everything {
		federations = c.all(federations)
	}
	c.judge(federations)
	c.count()
	transitionsStep(c)
	c.past.remember(c)
}

// judge runs all rules.
func (c *checker) judge(federations []string) {
	for _, r := range rules() {
		if r.step != nil {
			r.step(c)
		}
		if r.stands == nil {
			continue
		}
		for _, uid := range federations {
			f := c.federation(uid)
			var was *record.Federation
			if f == nil {
				was = as[record.Federation](c.before(record.FederationKey(uid)))
			}
			r.stands(c, uid, f, was)
		}
	}
}

// finish judges everything once more as it stands at the end.
func (c *checker) finish(last int64) {
	c.report.Last = last
	c.changes, c.changed = nil, map[string]*change{}
	c.judge(c.all(nil))
}

// apply takes over one event.
func (c *checker) apply(ev store.Event) {
	ch := &change{key: ev.Key, ref: record.ParseKey(ev.Key), old: c.keys[ev.Key]}
	if ev.Deleted {
		delete(c.keys, ev.Key)
	} else {
		e, err := decode(ev.KV)
		if err != nil {
			c.violatef(RuleRecords, ev.Key, "%v", err)
		}
		ch.now = e
		c.keys[ev.Key] = e
	}
	c.changes = append(c.changes, ch)
	c.changed[ev.Key] = ch
	c.reindex(ch)
}

// reindex moves a key within the indexes.
func (c *checker) reindex(ch *change) {
	if d := as[record.Desired](ch.old); d != nil {
		drop(c.desiredOf, d.Federation, ch.key)
	}
	if d := as[record.Desired](ch.now); d != nil {
		add(c.desiredOf, d.Federation, ch.key)
	}
	if n := as[record.Name](ch.old); n != nil {
		drop(c.namesOf, n.UID, ch.key)
	}
	if n := as[record.Name](ch.now); n != nil {
		add(c.namesOf, n.UID, ch.key)
	}
	if f := as[record.Federation](ch.old); f != nil {
		drop(c.named, name{f.Owner, f.GroupID}, ch.ref.Name)
		for _, m := range slices.Concat(replicasOf(f), f.Leaving) {
			drop(c.at, placeOf(m), ch.ref.Name)
		}
	}
	if f := as[record.Federation](ch.now); f != nil {
		if f.Batch != "" {
			add(c.batches, f.Batch, ch.ref.Name)
		}
		add(c.named, name{f.Owner, f.GroupID}, ch.ref.Name)
		for _, m := range slices.Concat(replicasOf(f), f.Leaving) {
			add(c.at, placeOf(m), ch.ref.Name)
		}
	}
}

func add[K comparable](index map[K]map[string]bool, k K, v string) {
	if index[k] == nil {
		index[k] = map[string]bool{}
	}
	index[k][v] = true
}

func drop[K comparable](index map[K]map[string]bool, k K, v string) {
	delete(index[k], v)
	if len(index[k]) == 0 {
		delete(index, k)
	}
}

// concerned lists the federations that the changes of this revision belong to.
func (c *checker) concerned() []string {
	out := map[string]bool{}
	for _, ch := range c.changes {
		for _, uid := range c.federationsOf(ch) {
			out[uid] = true
		}
	}
	delete(out, "")
	return slices.Sorted(maps.Keys(out))
}

// federationsOf names the federations that one change concerns: those that the
// record speaks of, and those that name its place, its owner's group or its cluster.
func (c *checker) federationsOf(ch *change) []string {
	out := c.speaksOf(ch)
	switch ch.ref.Kind {
	case record.KindSpec, record.KindDesiredService:
		out = slices.AppendSeq(out, maps.Keys(c.at[placeOfRef(ch.ref)]))
		if d := as[record.Desired](c.now(placeOfRef(ch.ref).desiredKey())); d != nil {
			out = append(out, d.Federation)
		}
	case record.KindName:
		out = slices.AppendSeq(out, maps.Keys(c.named[name{ch.ref.Owner, ch.ref.Name}]))
	case record.KindHistory, record.KindSecrets, record.KindPart:
		out = append(out, ch.ref.Name)
	case record.KindCluster:
		out = append(out, c.standingOn(ch.ref.Cluster)...)
	default:
	}
	return out
}

// speaksOf names the federations that a record, as it was or as it is, belongs to.
func (c *checker) speaksOf(ch *change) []string {
	if ch.ref.Kind == record.KindFederation || ch.ref.Kind == record.KindTokens {
		return []string{ch.ref.Name}
	}
	var out []string
	for _, e := range []*entry{ch.old, ch.now} {
		if e == nil {
			continue
		}
		switch rec := e.rec.(type) {
		case *record.Name:
			out = append(out, rec.UID)
		case *record.Request:
			out = append(out, rec.UID)
		case *record.Desired:
			out = append(out, rec.Federation)
		case *record.Deleted:
			out = append(out, rec.Federation)
		case *record.Observed:
			if l := c.past.lives[rec.UID]; l != nil {
				out = append(out, l.federation)
			}
		}
	}
	return out
}

// standingOn lists the federations that have members or desired records on a cluster.
func (c *checker) standingOn(cluster string) []string {
	var out []string
	for uid, keys := range c.desiredOf {
		for key := range keys {
			if strings.HasPrefix(key, record.DesiredServicesPrefix(cluster)) {
				out = append(out, uid)
				break
			}
		}
	}
	for p, uids := range c.at {
		if p.cluster == cluster {
			out = slices.AppendSeq(out, maps.Keys(uids))
		}
	}
	return out
}

// all lists every federation that any key speaks of, and those given.
func (c *checker) all(also []string) []string {
	out := map[string]bool{}
	for _, uid := range also {
		out[uid] = true
	}
	for _, e := range c.keys {
		for _, uid := range c.federationsOf(&change{key: e.kv.Key, ref: e.ref, now: e}) {
			out[uid] = true
		}
	}
	delete(out, "")
	return slices.Sorted(maps.Keys(out))
}

// count notes for the report which federations this revision speaks of.
func (c *checker) count() {
	touched := map[string]bool{}
	for _, ch := range c.changes {
		for _, uid := range c.speaksOf(ch) {
			touched[uid] = true
		}
	}
	delete(touched, "")
	for _, uid := range slices.Sorted(maps.Keys(touched)) {
		t := c.report.touch(uid, c.revision)
		f := c.federation(uid)
		if f == nil {
			continue
		}
		if t.outcome == 0 && !f.Phase.InFlight() {
			t.outcome = c.revision
		}
		if t.deletion == 0 && f.Phase == record.PhaseDeleting {
			t.deletion = c.revision
		}
	}
}

// now is a key as it stands after this revision, and before as it stood before.
func (c *checker) now(key string) *entry { return c.keys[key] }

func (c *checker) before(key string) *entry {
	if ch := c.changed[key]; ch != nil {
		return ch.old
	}
	return c.keys[key]
}

func (c *checker) federation(uid string) *record.Federation {
	return as[record.Federation](c.now(record.FederationKey(uid)))
}

// desired is the record of this life at a place; nil when there is none.
func (c *checker) desired(p place, uid string) *record.Desired {
	if d := as[record.Desired](c.now(p.desiredKey())); d != nil && d.UID == uid {
		return d
	}
	return nil
}

// violatef reports a broken rule once.
func (c *checker) violatef(r Rule, key, format string, args ...any) {
	v := Violation{Rule: r, Key: key, Message: fmt.Sprintf(format, args...)}
	if c.told[v] {
		return
	}
	c.told[v] = true
	v.Revision = c.revision
	c.report.Violations = append(c.report.Violations, v)
}

// holdsName says whether a federation in a phase holds its group_id and its places.
func holdsName(p record.Phase) bool {
	switch p {
	case record.PhasePreparing, record.PhaseApplying, record.PhaseReady, record.PhaseRollingBack:
		return true
	default:
		return false
	}
}
