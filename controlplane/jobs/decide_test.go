package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/controlplane/hint"
	"github.com/oscarfed/oscarfed/store/record"
)

var jobClock = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// standingJob is assigned to a cluster that is there, by its first attempt.
func standingJob(edit ...func(*situation)) situation {
	s := situation{
		job: record.Job{
			V: 1, Job: "j", Federation: "f", State: record.JobAssigned, Attempt: 1, Reserved: &record.Room{Millicores: 1},
			Place: &record.Place{ClusterID: "c", ServiceName: "s"},
		},
		assigned: true, registered: true, listed: true, session: 7, now: jobClock,
	}
	for _, e := range edit {
		e(&s)
	}
	return s
}

func says(state record.JobState, session int64) func(*situation) {
	return func(s *situation) { s.report = &record.JobReport{State: state, Session: session} }
}

func TestDecideJob(t *testing.T) {
	away := func(s *situation) { s.session = 0 }
	lost := func(s *situation) { s.session, s.lost = 0, true }
	for name, c := range map[string]struct {
		s    situation
		name string
		want record.JobState
	}{
		"unclaimed":                           {standingJob(), "", ""},
		"unclaimed, away":                     {standingJob(away), "", ""},
		"unclaimed, lost":                     {standingJob(lost), "withdraw", record.JobQueued},
		"unclaimed, lost, disbanded":          {standingJob(lost, func(s *situation) { s.disbanded = true }), "end", record.JobCancelled},
		"unclaimed, stopped":                  {standingJob(func(s *situation) { s.stopped = true }), "withdraw", record.JobQueued},
		"unclaimed, its service not in place": {standingJob(func(s *situation) { s.absent = true }), "withdraw", record.JobQueued},
		"claimed, its service not in place":   {standingJob(says(record.JobClaimed, 7), func(s *situation) { s.absent = true }), "", ""},
		"unclaimed, a tombstone":              {standingJob(func(s *situation) { s.gone = true }), "withdraw", record.JobQueued},
		"unclaimed, another registration":     {standingJob(func(s *situation) { s.registered = false }), "withdraw", record.JobQueued},
		"unclaimed, of the epoch before":      {standingJob(func(s *situation) { s.epoch = "2" }), "withdraw", record.JobQueued},
		"the same, not listed":                {standingJob(lost, func(s *situation) { s.epoch, s.listed = "2", false }), "", ""},
		"unclaimed, and its report is lost":   {standingJob(lost, func(s *situation) { s.job.Posted = true }), "", ""},
		"running, and its report is lost":     {standingJob(lost, func(s *situation) { s.job.State = record.JobRunning }), "", ""},
		"claimed":                             {standingJob(says(record.JobClaimed, 7)), "", ""},
		"claimed, stopped":                    {standingJob(says(record.JobClaimed, 7), func(s *situation) { s.stopped = true }), "", ""},
		"claimed by a session that is gone":   {standingJob(says(record.JobClaimed, 5)), "", ""},
		"the same, stopped":                   {standingJob(says(record.JobClaimed, 5), func(s *situation) { s.stopped = true }), "withdraw", record.JobQueued},
		"claimed, lost":                       {standingJob(says(record.JobClaimed, 7), lost), "withdraw", record.JobQueued},
		"claimed, lost, cancelled":            {standingJob(says(record.JobClaimed, 7), lost, func(s *situation) { s.job.Cancel = "me" }), "end", record.JobCancelled},
		"submitting, lost":                    {standingJob(says(record.JobSubmitting, 7), lost), "", ""},
		"uncertain, lost":                     {standingJob(says(record.JobUncertain, 7), lost), "", ""},
		"submitted, jobs=cancel":              {standingJob(says(record.JobSubmitted, 7), func(s *situation) { s.cancels = true }), "order_cancel", record.JobAssigned},
		"the same, ordered":                   {standingJob(says(record.JobSubmitted, 7), func(s *situation) { s.cancels, s.cancelSent = true, true }), "", ""},
		"submitted, revoked":                  {standingJob(says(record.JobSubmitted, 7), func(s *situation) { s.revoked = true }), "note_posted", record.JobAssigned},
		"submitted, revoked, and noted":       {standingJob(says(record.JobSubmitted, 7), func(s *situation) { s.revoked, s.job.Posted, s.postedSent = true, true, true }), "", ""},
		"submitted, revoked, and not told":    {standingJob(says(record.JobSubmitted, 7), func(s *situation) { s.revoked, s.job.Posted = true, true }), "note_posted", record.JobAssigned},
		"running, revoked":                    {standingJob(says(record.JobRunning, 7), func(s *situation) { s.revoked, s.job.State, s.job.Reserved = true, record.JobRunning, nil }), "note_posted", record.JobRunning},
		"running":                             {standingJob(says(record.JobRunning, 7)), "running", record.JobRunning},
		"running, noted":                      {standingJob(says(record.JobRunning, 7), func(s *situation) { s.job.State = record.JobRunning }), "", ""},
		"succeeded":                           {standingJob(says(record.JobSucceeded, 7)), "end", record.JobSucceeded},
		"vanished":                            {standingJob(says(record.JobVanished, 7)), "end", record.JobVanished},
		"submitted, the cluster is removed":   {standingJob(says(record.JobSubmitted, 7), func(s *situation) { s.registered = false }), "end", record.JobVanished},
		"posted, its report is lost, and the cluster is removed":  {standingJob(func(s *situation) { s.registered, s.job.Posted = false, true }), "end", record.JobVanished},
		"running, its report is lost, and the cluster is removed": {standingJob(func(s *situation) { s.registered, s.job.State = false, record.JobRunning }), "end", record.JobVanished},
		"given back, claimed, and the cluster is removed":         {standingJob(says(record.JobClaimed, 5), func(s *situation) { s.registered, s.job.Posted = false, true }), "end", record.JobVanished},
		"nothing is left there":                                   {standingJob(func(s *situation) { s.registered, s.assigned = false, false }), "end", record.JobVanished},
		"refused":                                                 {standingJob(says(record.JobRefused, 7)), "requeue", record.JobQueued},
		"refused, cancelled":                                      {standingJob(says(record.JobRefused, 7), func(s *situation) { s.job.Cancel = "me" }), "end", record.JobCancelled},
		"refused, the last time":                                  {standingJob(says(record.JobRefused, 7), func(s *situation) { s.job.Tries = maxTries - 1 }), "park", record.JobParked},
		"the same, frozen where it waited": {standingJob(says(record.JobRefused, 7), func(s *situation) {
			s.job.Tries, s.job.Frozen = maxTries-1, &record.Place{ClusterID: "b"}
		}), "requeue", record.JobQueued},
		"a word of nobody's":             {standingJob(says(record.JobParked, 7)), "", ""},
		"queued":                         {standingJob(func(s *situation) { s.job.State = record.JobQueued }), "", ""},
		"queued, disbanded":              {standingJob(func(s *situation) { s.job.State, s.disbanded = record.JobQueued, true }), "end", record.JobCancelled},
		"it has started where it waited": {standingJob(func(s *situation) { s.thawed = true }), "withdraw", record.JobQueued},
	} {
		d := decide(c.s)
		if d.name != c.name || d.name != "" && d.next.State != c.want {
			t.Errorf("%s: %q, then %s; want %q, then %s", name, d.name, d.next.State, c.name, c.want)
		}
		if d.next.State == record.JobQueued && !d.drop || d.next.State.Ended() && d.next.State != record.JobParked && !d.dropEvent {
			t.Errorf("%s: it leaves something: %+v", name, d)
		}
		if d.name != "" && d.next.Reserved != nil && d.next.State != record.JobAssigned {
			t.Errorf("%s: something stays promised", name)
		}
	}
}

func drawJobSituation(t *rapid.T) situation {
	states := []record.JobState{
		"", record.JobQueued, record.JobAssigned, record.JobClaimed, record.JobSubmitting, record.JobSubmitted, record.JobRunning, record.JobRefused,
		record.JobUncertain, record.JobSucceeded, record.JobFailed, record.JobCancelled, record.JobVanished, record.JobParked, record.JobReturned,
	}
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	s := standingJob()
	s.job.State = rapid.SampledFrom([]record.JobState{record.JobQueued, record.JobAssigned, record.JobRunning, record.JobParked, record.JobSucceeded}).Draw(t, "job")
	s.job.Tries, s.job.Posted = rapid.IntRange(0, maxTries-1).Draw(t, "tries"), flag("posted")
	if flag("reported") {
		s.report = &record.JobReport{State: rapid.SampledFrom(states).Draw(t, "state"), Session: rapid.Int64Range(6, 7).Draw(t, "of")}
	}
	s.session = rapid.SampledFrom([]int64{0, 7}).Draw(t, "session")
	s.assigned, s.registered, s.stopped, s.listed, s.revoked = flag("assigned"), flag("registered"), flag("stopped"), flag("listed"), flag("revoked")
	s.lost, s.gone, s.cancels, s.disbanded, s.thawed = s.session == 0 && flag("lost"), flag("gone"), flag("cancels"), flag("disbanded"), flag("thawed")
	s.absent = flag("absent")
	if flag("cancelled") {
		s.job.Cancel = "somebody"
	}
	if flag("restored") {
		s.epoch = "2"
	}
	return s
}

// TestWhatMayRunIsNeverTakenBack, whatever else is so: it goes elsewhere only when it was
// refused for certain, or when nobody has begun and the transaction is fenced.
func TestWhatMayRunIsNeverTakenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawJobSituation(t)
		d := decide(s)
		if d.name == "" || s.job.State == record.JobQueued {
			return
		}
		if s.job.State.Ended() {
			t.Fatalf("it has ended, and then: %+v", d)
		}
		var state record.JobState
		if s.report != nil {
			state = s.report.State
		}
		if d.next.State == record.JobQueued {
			switch {
			case state == record.JobRefused:
			case state.Posted() && state != record.JobParked && state != record.JobReturned:
				t.Fatalf("it was %s, and goes elsewhere", state)
			case s.registered && (s.job.Posted || s.job.State == record.JobRunning):
				t.Fatal("it may run, and goes elsewhere")
			case !d.fenced:
				t.Fatal("nothing keeps its syncer from claiming it at the same moment")
			case state == record.JobClaimed && s.session == s.report.Session:
				t.Fatal("its syncer is at work")
			}
		}
		if d.next.Attempt != s.job.Attempt {
			t.Fatalf("attempt %d became %d", s.job.Attempt, d.next.Attempt)
		}
		if again := decide(s); again.name != d.name {
			t.Fatal("it is not pure")
		}
	})
}

// TestCancellingAnUncertainJobSaysWhatToDo: it said that the job was being handed to an endpoint, which was over.
func TestCancellingAnUncertainJobSaysWhatToDo(t *testing.T) {
	for says, edit := range map[string]func(*situation){
		"it is being handed to an endpoint": func(s *situation) { s.job.Posting = &record.Posting{} },
		"oscarfed job resolve":              func(s *situation) { s.job.State = record.JobUncertain },
	} {
		if d, err := cancel(standingJob(edit), "me"); err == nil || d.name != "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%q, %v; it should say %q", d.name, err, says)
		}
	}
}

// TestOrdersOfPeople never take back what may run, either.
func TestOrdersOfPeople(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawJobSituation(t)
		d, err := cancel(s, "me")
		running := s.report != nil && s.report.State.Bound() || s.job.Posted || s.job.State == record.JobRunning
		if err == nil && d.name == "cancel" && running && s.job.State == record.JobAssigned {
			t.Fatalf("cancelled at once: %+v", s.report)
		}
		if d, err := replay(s); err == nil && d.name != "" && s.job.State != record.JobParked && s.job.State != record.JobQueued {
			t.Fatalf("replayed: %s", s.job.State)
		}
		if d, err := resolve(s, record.JobVanished); err == nil && d.name != "" {
			posted := s.report != nil && s.report.State.Posted()
			if !posted && !s.job.Posted && s.job.State != record.JobRunning || (!posted || s.report.State != record.JobUncertain) && s.session != 0 {
				t.Fatalf("resolved: %+v", s.report)
			}
		}
	})
}

// TestAJobOfAClusterThatIsAwayCanBeGivenUp, also one of which nothing is reported any more.
func TestAJobOfAClusterThatIsAwayCanBeGivenUp(t *testing.T) {
	away := func(s *situation) { s.session = 0 }
	given := func(s *situation) { s.job.Posted = true }
	runs := func(s *situation) { s.job.State = record.JobRunning }
	for name, c := range map[string]struct {
		s        situation
		vanishes bool
	}{
		"submitted":                            {standingJob(says(record.JobSubmitted, 7), away), true},
		"submitted, and its cluster is there":  {standingJob(says(record.JobSubmitted, 7)), false},
		"uncertain, and its cluster is there":  {standingJob(says(record.JobUncertain, 7)), true},
		"given back":                           {standingJob(given, away), true},
		"given back, and its cluster is there": {standingJob(given), false},
		"running, and nothing is reported":     {standingJob(runs, away), true},
		"the same, and its cluster is there":   {standingJob(runs), false},
		"unclaimed":                            {standingJob(away), false},
		"claimed":                              {standingJob(says(record.JobClaimed, 7), away), false},
	} {
		if d, err := resolve(c.s, record.JobVanished); (err == nil && d.next.State == record.JobVanished) != c.vanishes {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestPauseBefore(t *testing.T) {
	for tries, least := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 4: 4 * time.Second, 100: 8 * time.Second} {
		d := pauseBefore("a job", tries)
		if d < least || d > least*5/4 || d != pauseBefore("a job", tries) {
			t.Errorf("after %d refusals: %s", tries, d)
		}
	}
	if pauseBefore("a job", 3) == pauseBefore("another", 3) {
		t.Error("two jobs rest for the same time")
	}
}

func TestDecideFound(t *testing.T) {
	found := func(attempt int, state record.JobState) foundAttempt {
		return foundAttempt{cluster: "b", attempt: attempt, report: record.JobReport{State: state, Service: "sb"}, member: record.Member{UID: "u"}}
	}
	queued := func(attempt int, edit ...func(*situation)) situation {
		s := standingJob(edit...)
		s.job.State, s.job.Attempt, s.job.Place, s.job.Reserved, s.epoch = record.JobQueued, attempt, nil, nil, "2"
		return s
	}
	cancelled := func(by string) situation {
		s := queued(1)
		s.job.State, s.job.Cancel = record.JobCancelled, by
		return s
	}
	unknown := situation{job: record.Job{Job: "j"}, now: jobClock, epoch: "2"}
	assigned := standingJob(func(s *situation) { s.epoch = "2" })
	for name, c := range map[string]struct {
		s           situation
		f           foundAttempt
		state       record.JobState
		attempt     int
		adopt, drop bool
	}{
		"not known":                   {unknown, found(2, record.JobSubmitted), record.JobAssigned, 2, true, false},
		"not known, running":          {unknown, found(2, record.JobRunning), record.JobRunning, 2, true, false},
		"not known, ended":            {unknown, found(2, record.JobFailed), record.JobFailed, 2, false, false},
		"queued":                      {queued(0), found(1, record.JobSubmitted), record.JobAssigned, 1, true, false},
		"queued after the same":       {queued(1), found(1, record.JobRunning), record.JobRunning, 1, true, false},
		"queued after a later one":    {queued(3), found(1, record.JobRunning), record.JobQueued, 3, false, false},
		"cancelled":                   {cancelled("me"), found(1, record.JobRunning), record.JobRunning, 1, true, false},
		"cancelled, ended":            {cancelled("me"), found(1, record.JobSucceeded), record.JobCancelled, 1, false, false},
		"cancelled with its service":  {cancelled(""), found(1, record.JobRunning), record.JobCancelled, 1, false, false},
		"assigned before":             {assigned, found(2, record.JobRunning), record.JobRunning, 2, true, true},
		"assigned before, ended":      {assigned, found(2, record.JobSucceeded), record.JobSucceeded, 2, false, true},
		"the same attempt, elsewhere": {assigned, found(1, record.JobRunning), record.JobAssigned, 1, false, false},
		"of the present epoch":        {standingJob(func(s *situation) { s.epoch, s.job.Epoch = "2", "2" }), found(9, record.JobRunning), record.JobAssigned, 1, false, false},
	} {
		d := decideFound(c.s, c.f)
		if d.next.State != c.state || d.next.Attempt != c.attempt || d.adopt != c.adopt || d.drop != c.drop {
			t.Errorf("%s: %+v", name, d)
		}
		if d.adopt && (d.next.Place.ClusterID != "b" || d.next.Epoch != "2" || d.next.Reserved != nil) {
			t.Errorf("%s: %+v", name, d.next)
		}
	}
}

// TestAClusterThatFindsAJobAgainAndAgainIsNotedOnce: its notes would take the place of the attempts that the job has had.
func TestAClusterThatFindsAJobAgainAndAgainIsNotedOnce(t *testing.T) {
	s := standingJob(func(s *situation) { s.epoch, s.job.Epoch = "2", "2" })
	s.job.Past, s.job.Tries = []record.Attempt{{Attempt: 1, Place: "c/sc", State: record.JobRefused}}, 1
	for attempt := range 3 * keepAttempts {
		for _, cluster := range []string{"a", "b"} {
			s.job = decideFound(s, foundAttempt{cluster: cluster, attempt: attempt, report: record.JobReport{State: record.JobRunning, Service: "s"}}).next
		}
	}
	if len(s.job.Past) != 3 || !slices.Equal(s.job.RefusedAt(), []string{"c/sc"}) {
		t.Errorf("%+v", s.job.Past)
	}
}

func TestDecideOffer(t *testing.T) {
	at := record.At(jobClock)
	frozen := func(state record.JobState) *record.Job {
		return &record.Job{Job: "j", State: state, Frozen: &record.Place{ClusterID: "c"}, FrozenAt: &at}
	}
	offer := func(state record.OfferState, job *record.Job, answer record.OfferWord, edit ...func(*offerSituation)) offerSituation {
		s := offerSituation{job: job, offer: record.Offer{State: state}, cluster: "c", answer: answer, now: jobClock, frozenSince: jobClock}
		for _, e := range edit {
			e(&s)
		}
		return s
	}
	refused := frozen(record.JobQueued)
	refused.Tries = maxTries
	posted := func(s *offerSituation) { s.posted = true }
	restored := func(s *offerSituation) { s.restored = true }
	full := func(s *offerSituation) { s.full = true }
	unknown := func(s *offerSituation) { s.disbanded, s.unknown = true, true }
	gone := func(s *offerSituation) { s.gone = true }
	long := func(s *offerSituation) { s.goneSince = jobClock.Add(-goneFor - time.Second) }
	crowded := func(s *offerSituation) { s.crowded = true }
	late := func(s *offerSituation) { s.now = jobClock.Add(2 * time.Minute) }
	held := func(s *offerSituation) { s.offer.Held = true }
	listed := func(s *offerSituation) { s.listed = true }
	stale := func(s *offerSituation) { s.stale = true }
	for name, c := range map[string]struct {
		s    offerSituation
		want string
	}{
		"waiting":                             {offer(record.OfferWaiting, nil, ""), ""},
		"frozen, unknown":                     {offer(record.OfferFrozen, nil, record.OfferFreeze), "take"},
		"frozen, and nobody asked for it":     {offer(record.OfferFrozen, nil, ""), "restore"},
		"frozen, ours, nobody asked for it":   {offer(record.OfferFrozen, &record.Job{State: record.JobAssigned}, "", func(s *offerSituation) { s.ours = true }), "restore"},
		"frozen, and the answer may be lost":  {offer(record.OfferFrozen, nil, "", restored), "take"},
		"frozen, one too many":                {offer(record.OfferFrozen, nil, record.OfferFreeze, full), "restore"},
		"frozen, no federation":               {offer(record.OfferFrozen, nil, record.OfferFreeze, unknown), "restore"},
		"frozen, no federation, may be lost":  {offer(record.OfferFrozen, nil, "", unknown, restored), ""},
		"one too many, the answer lost":       {offer(record.OfferFrozen, nil, "", restored, full), ""},
		"frozen, ours":                        {offer(record.OfferFrozen, &record.Job{State: record.JobAssigned}, record.OfferFreeze, func(s *offerSituation) { s.ours = true }), "take"},
		"frozen, returned before":             {offer(record.OfferFrozen, &record.Job{State: record.JobReturned}, record.OfferFreeze), "take"},
		"frozen, and to go on":                {offer(record.OfferFrozen, &record.Job{State: record.JobReturned}, record.OfferRestore), ""},
		"frozen, and somebody has it":         {offer(record.OfferFrozen, &record.Job{State: record.JobAssigned}, "", posted), "release"},
		"frozen, and somebody may get it":     {offer(record.OfferFrozen, &record.Job{State: record.JobAssigned}, ""), ""},
		"taken":                               {offer(record.OfferFrozen, frozen(record.JobQueued), record.OfferFreeze), ""},
		"taken, and nobody wants it":          {offer(record.OfferFrozen, frozen(record.JobQueued), record.OfferFreeze, late), "restore"},
		"taken, late, and on its way":         {offer(record.OfferFrozen, frozen(record.JobAssigned), record.OfferFreeze, late), ""},
		"taken, and the federation goes":      {offer(record.OfferFrozen, frozen(record.JobQueued), record.OfferFreeze, func(s *offerSituation) { s.disbanded = true }), "restore"},
		"taken, and submitted":                {offer(record.OfferFrozen, frozen(record.JobAssigned), record.OfferFreeze, posted), "release"},
		"taken, in the epoch before":          {offer(record.OfferFrozen, frozen(record.JobQueued), record.OfferFreeze, stale), "freeze_again"},
		"held, its offer lost":                {offer(record.OfferWaiting, nil, "", held, restored), ""},
		"the same, and all have listed":       {offer(record.OfferWaiting, nil, "", held, restored, listed), "restore"},
		"the same, and an old answer":         {offer(record.OfferWaiting, nil, record.OfferFreeze, held, restored, listed, stale), "restore"},
		"the same, and it is answered":        {offer(record.OfferWaiting, nil, record.OfferFreeze, held, restored, listed), ""},
		"the same, ours":                      {offer(record.OfferWaiting, &record.Job{State: record.JobAssigned}, "", held, restored, listed, func(s *offerSituation) { s.ours = true }), "restore"},
		"the same, returned before":           {offer(record.OfferWaiting, &record.Job{State: record.JobReturned}, "", held, restored, listed), "restore"},
		"the same, and somebody has it":       {offer(record.OfferWaiting, &record.Job{State: record.JobAssigned}, "", held, restored, listed, posted), "release"},
		"the same, and somebody had it":       {offer(record.OfferWaiting, &record.Job{State: record.JobSucceeded}, "", held, restored, listed), "release"},
		"the same, and somebody may get it":   {offer(record.OfferWaiting, &record.Job{State: record.JobAssigned}, "", held, restored, listed), ""},
		"held, its offer lost, and taken":     {offer(record.OfferWaiting, frozen(record.JobQueued), record.OfferFreeze, held, restored, stale), "freeze_again"},
		"started, queued":                     {offer(record.OfferStarted, frozen(record.JobQueued), record.OfferFreeze), "take_back"},
		"started, on its way":                 {offer(record.OfferStarted, frozen(record.JobAssigned), record.OfferFreeze), ""},
		"started, and submitted all the same": {offer(record.OfferStarted, frozen(record.JobAssigned), record.OfferFreeze, posted), "thaw"},
		"taken, and refused for good":         {offer(record.OfferFrozen, refused, record.OfferFreeze), "restore"},
		"taken, and the offer is gone":        {offer("", frozen(record.JobQueued), record.OfferFreeze, gone), ""},
		"taken, and it is gone for long":      {offer("", frozen(record.JobQueued), record.OfferFreeze, gone, late), "restore"},
		"on its way, and the offer is gone":   {offer("", frozen(record.JobAssigned), record.OfferFreeze, gone, late), ""},
		"submitted, and the offer is gone":    {offer("", frozen(record.JobAssigned), record.OfferFreeze, gone, posted), "release"},
		"gone before it was taken":            {offer("", nil, record.OfferFreeze, gone), ""},
		"gone for long":                       {offer("", nil, record.OfferFreeze, gone, long), "forget_offer"},
		"gone, and there are too many":        {offer("", nil, record.OfferFreeze, gone, crowded), "forget_offer"},
		"gone, and nothing is left":           {offer("", nil, "", gone), ""},
		"released":                            {offer(record.OfferReleased, &record.Job{State: record.JobRunning}, record.OfferRelease), "forget_offer"},
		"released, and forgotten":             {offer(record.OfferReleased, &record.Job{State: record.JobRunning}, ""), ""},
		"restored":                            {offer(record.OfferRestored, &record.Job{State: record.JobReturned}, record.OfferRestore), "forget_offer"},
	} {
		if d := decideOffer(c.s); d.name != c.want {
			t.Errorf("%s: %q, want %q", name, d.name, c.want)
		}
	}
}

func TestDecidePosted(t *testing.T) {
	s := standingJob(func(s *situation) {
		s.job.Place, s.job.Posting, s.job.Reserved = &record.Place{URL: "https://e.example.org"}, &record.Posting{Instance: "i"}, nil
	})
	for name, c := range map[string]struct {
		what postedWhat
		want record.JobState
	}{
		"200":         {postedWhat{status: 200}, record.JobSucceeded},
		"204":         {postedWhat{status: 204}, record.JobSucceeded},
		"302":         {postedWhat{status: 302}, record.JobQueued},
		"500":         {postedWhat{status: 500}, record.JobQueued},
		"not reached": {postedWhat{unsent: true}, record.JobQueued},
		"no answer":   {postedWhat{}, record.JobUncertain},
	} {
		if d := decidePosted(s, c.what); d.next.State != c.want || d.next.Posting != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestPromisesAddUp: what is promised and given back in any order is nothing.
func TestPromisesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := rapid.SliceOf(rapid.Custom(func(t *rapid.T) record.Room {
			return record.Room{Millicores: rapid.Int64Range(0, 2).Draw(t, "cpu"), Bytes: rapid.Int64Range(0, 2).Draw(t, "memory"), GPUs: rapid.Int64Range(0, 1).Draw(t, "gpu")}
		})).Draw(t, "rooms")
		var list []record.Promise
		for _, r := range rooms {
			before := slices.Clone(list)
			next := promise(list, r, 1)
			if !slices.Equal(before, list) || !within(before, next) || within(next, before) {
				t.Fatalf("%v and %v is %v", list, r, next)
			}
			list = next
		}
		for _, r := range rapid.Permutation(rooms).Draw(t, "back") {
			list = promise(list, r, -1)
		}
		if len(list) > 0 {
			t.Fatalf("%v is left", list)
		}
	})
}

// A caller reads of a job under way that it is submitted or runs; in its record it is assigned.
func TestTheRefusalOfAReplayNamesNoStateThatNobodyIsShown(t *testing.T) {
	s := situation{job: record.Job{Job: "j", State: record.JobAssigned, Epoch: "e"}, epoch: "e"}
	_, err := replay(s)
	if err == nil || !strings.Contains(err.Error(), "job j has not ended") {
		t.Errorf("a job under way is refused with %v", err)
	}
	s.job.State = record.JobSucceeded
	if _, err := replay(s); err == nil || !strings.Contains(err.Error(), "job j is succeeded; only one") {
		t.Errorf("a job that has succeeded is refused with %v", err)
	}
}

// A hint names a replay only where it is not refused.
func TestNoHintNamesAReplayThatIsRefused(t *testing.T) {
	for _, state := range []record.JobState{
		record.JobQueued, record.JobAssigned, record.JobRunning, record.JobSucceeded, record.JobFailed, record.JobCancelled, record.JobVanished, record.JobParked, record.JobReturned,
	} {
		for _, reason := range []record.JobReason{"", record.JobNoCandidate, record.JobInputsUnreadable, record.JobPodFailed, record.JobServiceGone} {
			s := standingJob(func(s *situation) { s.job.State, s.job.Reason, s.job.Kept = state, reason, true })
			if _, err := replay(s); err != nil && strings.Contains(hint.ForJob(s.job.Job, state, reason), "job replay") {
				t.Errorf("%s, %s: %v", state, reason, err)
			}
		}
	}
}
