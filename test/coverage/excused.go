package main

import (
	"slices"
	"strings"
)

// excused are branches that no history can take: a file, a word of the line that a branch begins
// with, or none for the whole file, and why.
type excused struct{ file, text, why string }

const (
	noJoin     = "clusters of histories do not join with tokens: test/join"
	noKube     = "needs a Kubernetes: test/kube, syncer"
	newer      = "only a newer version writes it: controlplane, syncer"
	noValue    = "the compiler wants a default; the switch names every value"
	noUser     = "services of histories have no owner with a token: test/e2e"
	noVolume   = "services of histories have no volume: test/e2e"
	noPrefetch = "services of histories are not prefetched"
	noPerson   = "needs a person who looks: test/jobs"
)

func excusedBlocks() []excused {
	return []excused{
		{"controlplane/decide/join.go", "", noJoin},
		{"syncer/jobs/planstart.go", "", noKube},
		{"syncer/jobs/planinputs.go", "", noUser},
		{"controlplane/jobs/decide_offer.go", "", noKube},
		{"controlplane/jobs/decide_post.go", "", "jobs of histories go to clusters, not to endpoints: controlplane/jobs"},
		{"controlplane/decide/decide.go", "s.Strange()", newer},
		{"controlplane/decide/decide.go", "PhaseChanging", noValue},
		{"controlplane/decide/decide.go", "default:", noValue},
		{"controlplane/decide/decide.go", "s.Fed.Prefetch", noPrefetch},
		{"controlplane/decide/decide.go", "deletedBytes", "a federation of histories is smaller than one transaction"},
		{"controlplane/decide/decide.go", "if !all {", "a federation of histories is smaller than one transaction"},
		{"controlplane/decide/removal.go", "len(names)-most", "needs 20 federations on one cluster: controlplane/decide"},
		{"controlplane/decide/removal.go", "refresh tokens", noUser},
		{"controlplane/jobs/decide.go", "withoutInputs", noUser},
		{"controlplane/jobs/decide.go", "JobInputsUnreadable", noUser},
		{"controlplane/jobs/decide.go", "s.thawed", noKube},
		{"controlplane/jobs/decide.go", "s.revoked", "no cluster of a history is revoked: test/join"},
		{"controlplane/jobs/decide_order.go", "resolve", noPerson},
		{"syncer/services/plan.go", "record.Strange", newer},
		{"syncer/services/plan.go", "s.backOff(heal)", noKube},
		{"syncer/services/plan.go", "act: heal", noKube},
		{"syncer/services/plan.go", "s.without(", noUser},
		{"syncer/services/planremoval.go", "s.dropsVolume()", noVolume},
		{"syncer/services/planremoval.go", "dropVolume", noVolume},
		{"syncer/services/planremoval.go", "s.token.", noUser},
		{"syncer/services/planremoval.go", "s.local.perishes", noVolume},
		{"syncer/jobs/plan.go", "JobCannotStart", noKube},
		{"syncer/jobs/plan.go", "a person has decided so", noPerson},
	}
}

// excuse is why a branch is not taken; empty when it could be.
func excuse(file, text string) string {
	i := slices.IndexFunc(excusedBlocks(), func(e excused) bool { return e.file == file && strings.Contains(text, e.text) })
	if i < 0 {
		return ""
	}
	return excusedBlocks()[i].why
}

// excusedTransitions are the edges that no history can take, and why.
func excusedTransitions() map[string]string {
	return map[string]string{
		`attempt of a job: "submitting" to "cancelled"`: "the end of a Job is seen after it was seen running, unless a list takes long",
		`job: "queued" to "running"`:                    noKube,
		`job: "queued" to "returned"`:                   noKube,
		`job: "assigned" to "returned"`:                 noKube,
		`job: "returned" to "queued"`:                   noKube,
		`job: "assigned" to "uncertain"`:                "only at an endpoint: controlplane/jobs",
		`job: "uncertain" to "succeeded"`:               noPerson,
		`job: "uncertain" to "vanished"`:                noPerson,
		`job: "queued" to "failed"`:                     "its event was lost: controlplane/jobs",
		`report of a replica: "prepare" to "wedged"`:    "what is wedged was applied",
		`report of a replica: "prepare" to "failed"`:    "a vote is a no instead",
	}
}
