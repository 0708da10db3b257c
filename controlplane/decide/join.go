package decide

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

// renewAfterEnd is how long after its certificate has ended a cluster may renew it.
const renewAfterEnd = 90 * 24 * time.Hour

// Applicant is a syncer that asks to join, with what it has proven.
type Applicant struct {
	Cluster string
	// UID is the registration that it names; only a renewal names one.
	UID string
	// Key is the fingerprint of a key whose private half it has.
	Key string
	// KubeSystem is empty when the syncer could not read it.
	KubeSystem string
	// Recipient is empty in a renewal: it stays as it is.
	Recipient string
	// Oscar is empty when the syncer could not identify its OSCAR.
	Oscar string
}

// ErrNoToken answers every invalid token, whatever the cause, so that it does not reveal which
// clusters exist.
func ErrNoToken() error {
	return &fault.Error{Code: fault.CodeForbidden, Message: "the join token is not accepted: it is wrong, for another cluster, or over; ask the administrator for another one (oscarfed cluster join)"}
}

// Join decides about a registration whose syncer joins with a token, and whether that
// uses up the token. Join and reg are nil when there are none.
func Join(join *record.Join, reg *record.Cluster, who Applicant, now time.Time) (next *record.Cluster, uses bool, err error) {
	if join == nil || join.ClusterID != who.Cluster || now.After(join.ExpiresAt.Time) {
		return nil, false, ErrNoToken()
	}
	switch {
	case reg == nil || reg.UID != join.ClusterUID:
		return nil, false, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("cluster %q was removed since the join token was made", who.Cluster)}
	case reg.Removal != nil:
		return nil, false, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("cluster %q is being removed; it can be registered again when it is gone", who.Cluster)}
	case !Admissible(reg):
		return nil, false, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("cluster %q is %s: nobody is let in for it until the administrator has ended that", who.Cluster, reg.State)}
	case join.UsedBy != "" && (join.UsedBy != who.Key || reg.Joined == nil || reg.Joined.Key != who.Key):
		return nil, false, &fault.Error{Code: fault.CodeForbidden, Message: "the join token was used already, with another key; ask the administrator for another one. " +
			"If nobody here has used it, somebody else has: tell him"}
	}
	joined := record.Joined{Key: who.Key, Recipient: who.Recipient, KubeSystemUID: who.KubeSystem, OscarID: who.Oscar, At: record.At(now)}
	if old := reg.Joined; old != nil {
		if err := sameCluster(old, who, join.ReplaceKey && join.UsedBy == ""); err != nil {
			return nil, false, err
		}
		if joined.KubeSystemUID == "" && old.Key == who.Key {
			joined.KubeSystemUID = old.KubeSystemUID
		}
		if join.UsedBy != "" {
			joined.At = old.At // the answer was lost: nothing begins again
		}
	}
	out := *reg
	out.Joined = &joined
	return &out, join.UsedBy == "", nil
}

// Admissible says whether the syncer of a registration has a user in etcd. In any state that is
// not named here it loses it.
func Admissible(reg *record.Cluster) bool {
	switch reg.State {
	case record.ClusterActive, record.ClusterPaused, record.ClusterCordoned:
		return true
	}
	return false
}

// sameCluster refuses another key and another Kubernetes than the registered ones.
func sameCluster(old *record.Joined, who Applicant, replace bool) error {
	const way = "; if its identity was lost, oscarfed cluster join --replace-key makes a token that takes another one"
	switch {
	case replace:
	case old.Key != who.Key:
		return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q has joined with another key", who.Cluster) + way}
	case otherKubernetes(old, who):
		return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("cluster %q has joined from another Kubernetes (namespace kube-system has uid %s here)", who.Cluster, who.KubeSystem) + way}
	}
	return nil
}

func otherKubernetes(old *record.Joined, who Applicant) bool {
	return old.KubeSystemUID != "" && who.KubeSystem != "" && old.KubeSystemUID != who.KubeSystem
}

// Renewal says whether a joined cluster gets another certificate. It returns the updated
// identity; changed says that the record has to be written.
func Renewal(joined *record.Joined, who Applicant, now time.Time) (next *record.Joined, changed bool, err error) {
	if joined == nil || joined.Key != who.Key {
		return nil, false, &fault.Error{Code: fault.CodeForbidden, Message: "no cluster is registered under this id and uid with this key: it was removed, or its key was replaced; " +
			"to join again it needs a token (oscarfed cluster join)"}
	}
	if gone := now.Sub(joined.ValidUntil.Time); gone > renewAfterEnd {
		return nil, false, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("the certificate ended on %s, %d days ago; it is renewed for %d days. To join again the cluster needs a token (oscarfed cluster join)",
			joined.ValidUntil.UTC().Format(time.DateOnly), int(gone.Hours()/24), int(renewAfterEnd.Hours()/24))}
	}
	if err := sameCluster(joined, who, false); err != nil {
		return nil, false, err
	}
	out := *joined
	if out.KubeSystemUID == "" && who.KubeSystem != "" {
		out.KubeSystemUID, changed = who.KubeSystem, true
	}
	return &out, changed, nil
}
