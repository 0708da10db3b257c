package delegation

// Decision is where a job goes, and what was thought of every member.
type Decision struct {
	// Policy that was followed.
	Policy string `json:"policy"`
	// Chosen is the place that the job goes to; empty when no member can take it now.
	Chosen string `json:"chosen,omitempty"`
	// Order lists the places of all members that could take it, best first.
	Order []string `json:"order"`
	// Verdicts are in the order of the snapshot's candidates.
	Verdicts []Verdict `json:"verdicts"`
}

// Verdict says why one member was taken or not.
type Verdict struct {
	Place string `json:"place"`
	Why   Why    `json:"why"`
	// Message is the same in a sentence.
	Message string `json:"message"`
	// Score by which the policy put the member in order; nil when it was not
	// compared. static: the priority, low is better. random: the weight. load-based:
	// 100 - 100*free millicores/32000 within 0 and 100, low is better. topsis: the
	// closeness to the best within 0 and 1, high is better.
	Score *float64 `json:"score,omitempty"`
}

// Why is the one reason for which a member was taken or not.
type Why string

// The reasons. Of several the first in this order is told.
const (
	// WhyChosen: the job goes there.
	WhyChosen Why = "Chosen"
	// WhyOutranked: it could have taken the job, and the policy preferred another.
	WhyOutranked Why = "Outranked"

	// WhyNoEdge: the topology has no edge to it from where the job is.
	WhyNoEdge Why = "NoEdge"
	// WhyVisited: the job was there before.
	WhyVisited Why = "Visited"
	// WhyTooManyHops: the job was handed over MaxHops times.
	WhyTooManyHops Why = "TooManyHops"
	// WhyRevoked, WhyRemoving, WhyPaused, WhyCordoned: the cluster's state.
	WhyRevoked  Why = "Revoked"
	WhyRemoving Why = "Removing"
	WhyPaused   Why = "Paused"
	WhyCordoned Why = "Cordoned"
	// WhyNotAlive: no syncer has a session for the cluster.
	WhyNotAlive Why = "NotAlive"
	// WhyNotReady: the service is not in place there.
	WhyNotReady Why = "NotReady"
	// WhyNoCapacity: the present syncer has not said yet what is free.
	WhyNoCapacity Why = "NoCapacity"
	// WhyInputsUnreadable: it cannot read the job's inputs.
	WhyInputsUnreadable Why = "InputsUnreadable"
	// WhyInputsUnknown: it is not known whether it can.
	WhyInputsUnknown Why = "InputsUnknown"
	// WhyNeverUsed: its priority is 101 or more.
	WhyNeverUsed Why = "NeverUsed"
	// WhyZeroWeight: its weight in random is 0.
	WhyZeroWeight Why = "ZeroWeight"
	// WhyNoGPU: the job needs a GPU, and no node there has a free one.
	WhyNoGPU Why = "NoGPU"
	// WhyNoRoom: no single node has room for the job, with what is promised to others
	// taken off.
	WhyNoRoom Why = "NoRoom"
)
