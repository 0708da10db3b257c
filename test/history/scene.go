package history

import (
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// maxScenes bounds the scenes of a history. Each has a client and a free service of its own.
	maxScenes   = 3
	sceneClient = 100
	// sceneEvents is the number of the first event of a scene, and of the first script and object.
	sceneEvents = 1000
)

// scene is a few steps that belong together: chance alone would hardly ever bring them about.
type scene struct {
	rng  *rand.Rand
	plan *Plan
	at   time.Duration
	// client makes the requests, service is the one that they are about, and first its first number.
	client, service, first int
	// on is the cluster where it happens.
	on int
}

// scenes adds some to a plan, drawn from a stream of their own.
func (d *drawer) scenes() {
	if d.plan.Restores() {
		return // what happened beside the store before is forgotten there
	}
	rng := rand.New(rand.NewPCG(d.plan.Seed, streamScene))
	for i := range 1 + rng.IntN(maxScenes) {
		s := &scene{
			rng: rng, plan: d.plan, at: time.Duration(rng.Int64N(int64(d.length))), client: sceneClient + i,
			service: freeServices + i, first: sceneEvents * (i + 1), on: rng.IntN(d.plan.Shape.Clusters),
		}
		pick(rng, s.nameTaken, s.placeTaken, s.placeTaken, s.dataStays, s.unlisted, s.lateCreate, s.silentMember, s.lateReport, s.lateReport, s.jobInDoubt, s.jobInDoubt, s.edited)()
	}
}

// between draws a time.
func (s *scene) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rng.Int64N(int64(to-from)))
}

func (s *scene) add(after time.Duration, step Step) {
	step.At = s.at + after
	s.plan.Steps = append(s.plan.Steps, step)
}

// free asks for an operation on the scene's service, with members on all clusters.
func (s *scene) free(after time.Duration, op string) {
	s.add(after, Step{Client: s.client, Free: &Free{Op: op, Service: s.service, Topology: "mesh", Members: 1<<s.plan.Shape.Clusters - 1}})
}

func (s *scene) local(after time.Duration, op string, stands time.Duration) {
	s.first++
	s.add(after, Step{Local: &Local{Op: op, Cluster: s.on, Service: s.service, Number: s.first, For: stands}})
}

func (s *scene) fault(after time.Duration, f Fault) { s.add(after, Step{Fault: &f}) }

// nameTaken: somebody's service stands where a creation wants one.
func (s *scene) nameTaken() {
	s.local(0, localForeign, s.between(2*time.Minute, 8*time.Minute))
	s.free(s.between(0, 20*time.Second), freeCreate)
	s.free(s.between(time.Minute, 2*time.Minute), freeCreate)
}

// placeTaken: somebody replaces ours by his own, which looks like it or not.
func (s *scene) placeTaken() {
	s.free(0, freeCreate)
	at := s.between(30*time.Second, 90*time.Second)
	s.local(at, pick(s.rng, localCopy, localCopy, localReplace), s.between(2*time.Minute, 6*time.Minute))
	if s.rng.IntN(2) == 0 {
		s.free(at+s.between(10*time.Second, 90*time.Second), pick(s.rng, freeDelete, freeChange))
	}
}

// dataStays: users have objects in the buckets of a service that is deleted, made again, and
// perhaps rolled back.
func (s *scene) dataStays() {
	s.free(0, freeCreate)
	s.local(s.between(20*time.Second, time.Minute), localUpload, 0)
	s.free(70*time.Second, pick(s.rng, freeDelete, freeRemove))
	if s.rng.IntN(2) == 0 {
		s.fault(100*time.Second, Fault{Kind: faultOSCAR, On: hostOSCAR(s.on), Op: oscarsim.OpCreate, What: oscarsim.Fault500, Count: 20, For: time.Minute})
	}
	s.free(s.between(100*time.Second, 120*time.Second), freeCreate)
	s.local(s.between(150*time.Second, 200*time.Second), localUpload, 0)
}

// unlisted: a service that OSCAR does not list, and shows when it is asked for it, is deleted.
func (s *scene) unlisted() {
	s.free(0, freeCreate)
	s.local(s.between(20*time.Second, time.Minute), localUnlabel, 0)
	s.free(s.between(70*time.Second, 3*time.Minute), pick(s.rng, freeDelete, freeRemove))
}

// lateCreate: OSCAR makes a service long after it was asked, and its owner has deleted it by then.
func (s *scene) lateCreate() {
	s.fault(0, Fault{
		Kind: faultOSCAR, On: hostOSCAR(s.on), Op: oscarsim.OpCreate, What: oscarsim.FaultLate, Count: 1,
		Amount: s.between(20*time.Second, 200*time.Second), For: time.Minute,
	})
	s.free(time.Second, freeCreate)
	s.free(s.between(5*time.Second, 40*time.Second), freeDelete)
}

// silentMember: a creation wants a cluster whose syncer has just fallen silent.
func (s *scene) silentMember() {
	f := Fault{Kind: faultCut, On: hostSyncer(s.on), To: world.HostEtcd, For: s.between(2*time.Minute, 6*time.Minute)}
	if s.rng.IntN(2) == 0 {
		f.Kind, f.To = faultFreeze, ""
	}
	s.fault(0, f)
	s.free(s.between(0, 15*time.Second), freeCreate)
}

// lateReport: what a syncer reports after it has created or deleted a service reaches etcd when its
// session is over.
func (s *scene) lateReport() {
	f := s.trap(pick(s.rng, oscarsim.OpCreate, oscarsim.OpDelete))
	f.Read = f.Kind != faultKill && s.rng.IntN(4) > 0
	s.fault(0, f)
	s.free(time.Second, freeCreate)
	s.free(s.between(time.Minute, 2*time.Minute), freeDelete)
}

// trap is a fault of the syncer that begins when its OSCAR is asked for something, and outlasts its
// session.
func (s *scene) trap(op oscarsim.Op) Fault {
	f := Fault{Kind: pick(s.rng, faultLag, faultLag, faultLag, faultDeaf, faultCut, faultFreeze, faultKill), On: hostSyncer(s.on), After: op, For: s.between(55*time.Second, 4*time.Minute)}
	switch f.Kind {
	case faultLag:
		f.To, f.Amount = world.HostEtcd, s.between(35*time.Second, 50*time.Second)
	case faultDeaf, faultCut:
		f.To = world.HostEtcd
	}
	return f
}

// jobInDoubt: a syncer ends while OSCAR is asked for a job, or cannot say what came of it; OSCAR
// forgets Jobs meanwhile.
func (s *scene) jobInDoubt() {
	if what := pick(s.rng, "", "", oscarsim.FaultHang, oscarsim.FaultLate, oscarsim.Fault500After, oscarsim.FaultCrash); what != "" {
		s.fault(0, Fault{Kind: faultOSCAR, On: hostOSCAR(s.on), Op: oscarsim.OpJob, What: what, Count: 1 + s.rng.IntN(3), Amount: s.between(time.Second, 100*time.Second), For: 3 * time.Minute})
	}
	f := s.trap(oscarsim.OpJob)
	if s.rng.IntN(2) == 0 {
		f.Kind, f.To, f.Amount = faultKill, "", 0
	}
	s.fault(0, f)
	for range 2 + s.rng.IntN(5) {
		s.first++
		s.add(s.between(time.Second, 10*time.Second), Step{Client: s.client, Job: &Job{Op: jobSubmit, Event: s.first}})
	}
	for range 1 + s.rng.IntN(3) {
		s.local(s.between(10*time.Second, 4*time.Minute), localSweep, 0)
	}
}

// edited: somebody changes ours, once or twice.
func (s *scene) edited() {
	s.free(0, freeCreate)
	for range 1 + s.rng.IntN(2) {
		s.local(s.between(20*time.Second, 5*time.Minute), localEdit, 0)
	}
}
