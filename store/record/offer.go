package record

// OfferState is how far the syncer of a member has come with a Job that it offers.
type OfferState string

// The states of an offer. In all but OfferFrozen the Job stands as it was, or is gone.
const (
	// OfferWaiting: the Job waits for longer than it should; it would be offered. With Offer.Held it
	// is held already.
	OfferWaiting OfferState = "waiting"
	// OfferFrozen: no container of it ever started, and none can. The event stands at
	// observed/events/<job>.
	OfferFrozen OfferState = "frozen"
	// OfferReleased: the Job is deleted, as answered.
	OfferReleased OfferState = "released"
	// OfferRestored: the Job is as it was found.
	OfferRestored OfferState = "restored"
	// OfferStarted: a container had started before it could be frozen, or another
	// client ended the Job. It is not offered any more.
	OfferStarted OfferState = "started"
)

// Offer is a Job of a member that waits where it is. The job of that name is the Job's
// own uid, or, when it came from us, ours.
type Offer struct {
	V          int        `json:"v"`
	State      OfferState `json:"state"`
	Federation string     `json:"federation"`
	Service    string     `json:"service_name"`
	UID        string     `json:"uid"`
	// Namespace and Name of the Job in Kubernetes, and when it was made.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Since     Time   `json:"since"`
	// Size of its event in bytes, and whether it is one of a bucket (oscar.BucketEvent).
	Size        int    `json:"size"`
	BucketEvent bool   `json:"bucket_event,omitempty"`
	Message     string `json:"message,omitempty"`
	// Held says of a waiting offer that its Job is held, for an earlier offer that the store has lost.
	Held               bool   `json:"held,omitempty"`
	LastTransitionTime Time   `json:"last_transition_time"`
	Epoch              string `json:"epoch,omitempty"`
}

// OfferWord is what the control plane answers.
type OfferWord string

// The answers. OfferFreeze: another member could take it, so freeze it. OfferRelease: it is
// submitted elsewhere, delete it. OfferRestore: no other member took it, let it go on.
const (
	OfferFreeze  OfferWord = "freeze"
	OfferRelease OfferWord = "release"
	OfferRestore OfferWord = "restore"
)

// OfferAnswer answers an offer.
type OfferAnswer struct {
	V      int       `json:"v"`
	Answer OfferWord `json:"answer"`
	// Recipient goes with OfferFreeze: what the event is sealed to, the control plane's.
	Recipient string `json:"recipient,omitempty"`
	// Cancelled goes with OfferRelease: a person has cancelled the job. The Job is deleted also when it
	// has started meanwhile.
	Cancelled  bool   `json:"cancelled,omitempty"`
	Message    string `json:"message,omitempty"`
	AnsweredAt Time   `json:"answered_at"`
	// Epoch in which it was given; a syncer acts on none of another epoch.
	Epoch string `json:"epoch,omitempty"`
}
