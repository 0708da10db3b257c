package main

import "strings"

// excuse is for branches that no history can take: those of a function, or of all of a file, whose first
// line has a text, and why. It says which test takes them.
type excuse struct{ file, function, text, why string }

// of says whether a branch is one of them.
func (e excuse) of(b branch) bool {
	return e.file == b.file && (e.function == "" || e.function == b.function) && strings.Contains(b.text, e.text)
}

const (
	noJoin  = "histories have no certificates, clusters join by hand: test/join"
	noKube  = "OSCAR is without Kubernetes in virtual time: test/kube"
	noOffer = "only a syncer with Kubernetes offers Jobs: test/kube, controlplane/job_offer_test.go"
	newer   = "only a newer version writes it: controlplane, syncer"
	older   = "only an older version writes it: controlplane/tokens"
	noValue = "the compiler wants it; every value is named before"
	byHand  = "only a person with rights in etcd does that to a record: controlplane, controlplane/decide, controlplane/tokens"
)

func excusedBlocks() []excuse {
	const (
		decide    = "controlplane/decide/decide.go"
		tokens    = "controlplane/tokens/decide.go"
		jobs      = "controlplane/jobs/decide.go"
		services  = "syncer/services/plan.go"
		situation = "syncer/services/situation.go"
		start     = "syncer/jobs/planstart.go"
	)
	return []excuse{
		{"controlplane/decide/join.go", "", "", noJoin},
		{"controlplane/jobs/decide_offer.go", "", "", noOffer},
		{tokens, "decideTokens", "return nil, time.Time{}", newer},
		{tokens, "decideHold", "it cannot be read", byHand},
		{tokens, "grantEnd", "!reported", older},
		{tokens, "grantEnd", "paused.After(until)", "only a hostile holder grants what has ended: controlplane/tokens"},
		{tokens, "refusal", "given.Nonce == want.Nonce", "only a hostile syncer reports a key that nobody can seal to: controlplane/tokens"},

		{"controlplane/decide/batch.go", "endWith", "out[i] = Decision{}", byHand},
		{"controlplane/decide/change.go", "ApplyChange", "if r.Desired == nil { continue", byHand},
		{"controlplane/decide/decision.go", "removalOf", "if r.Desired == nil {", byHand},
		{"controlplane/decide/delete.go", "Deletion", "if r.Desired == nil { continue", byHand},
		{decide, "deadline", "if s.Fed.Deadline == nil { return", byHand},

		{decide, "Decide", "return Decision{} // what a newer", newer},
		{decide, "Decide", "PhaseChanging", noValue},
		{decide, "Decide", "default: // These are phases of a replica", noValue},
		{decide, "Decide", "return Decision{}", noValue},
		{decide, "RolledBack", "slices.ContainsFunc(part", "needs reports of 256 KiB: controlplane/decide"},
		{decide, "RolledBack", "if !all {", "needs reports of 256 KiB: controlplane/decide"},
		{decide, "acknowledged", "size > deletedBytes", "needs reports of 256 KiB: controlplane/decide"},

		{jobs, "unposted", "case s.thawed", noOffer},
		{jobs, "eventLost", "", byHand},
		{"controlplane/jobs/decide_order.go", "cancel", "return decision{}, errThawed", noOffer},
		{jobs, "podOf", "return &record.JobPod", noKube},

		{"syncer/jobs/plan.go", "planForgotten", "case s.assignment.Cancel: return", "only 0.2.0 or before readmits a cluster without a note of what it had: syncer/jobs"},
		{"syncer/jobs/plan.go", "planSubmitting", "postOther", noKube},
		{"syncer/jobs/planinputs.go", "ofInputs", "nobody has looked", "a look ends sooner, with a timeout: syncer/jobs"},
		{"syncer/jobs/plan.go", "planSubmitted", "// It was seen to be there, and that it never runs.", noKube},
		{start, "podTold", "", noKube},
		{start, "pullsImage", "", noKube},
		{start, "podWords", "", noKube},
		{start, "tellPod", "p.Held {", noKube},
		{start, "tellPod", "if s.report != nil {", noKube},
		{start, "tellPod", "d.pod = &record.JobPod", noKube},
		{start, "tellPod", "nothing of the pod's own", noKube},
		{start, "cannotStart", "return d // ", noKube},
		{start, "cannotStart", "remove", noKube},
		{start, "cannotStart", "stepRemove", noKube},
		{start, "cannotStart", "p.Offered", noKube},
		{start, "cannotStart", "p.CannotRun", noKube},
		{start, "cannotStart", "s.podTold()", noKube},
		{start, "cannotStart", "case p.Held:", noKube},
		{start, "cannotStart", "due", noKube},
		{start, "cannotStart", "stepHold", noKube},

		{services, "planned", "a newer control plane asks", newer},
		{services, "planned", "there is no other intent", noValue},
		{situation, "String", "act(%d)", noValue},
	}
}

// excusedTransitions are the edges that no history can take, and why.
func excusedTransitions() map[string]string {
	const (
		listed = "what is found is what OSCAR lists, which knows neither: asListed of syncer/jobs/plan.go"
		looks  = "only a list ends it: planSubmitting and planUncertain of syncer/jobs/plan.go"
	)
	return map[string]string{
		`attempt of a job: "submitting" to "vanished"`: looks,
		`attempt of a job: "uncertain" to "cancelled"`: looks,
		`job: "" to "cancelled"`:                       listed,
		`job: "" to "vanished"`:                        listed,
		`job: "queued" to "vanished"`:                  listed,
		`job: "queued" to "returned"`:                  noOffer,
		`job: "assigned" to "returned"`:                noOffer,
		`job: "returned" to "queued"`:                  noOffer,
		`report of a replica: "prepare" to "wedged"`:   "what is wedged was applied: planVote of syncer/services/plan.go",
		`report of a replica: "prepare" to "failed"`:   "a vote is a no instead: syncer/services/vote.go",
	}
}
