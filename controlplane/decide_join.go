package controlplane

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// renewAfterEnd is how long after its certificate has ended a cluster may renew it.
const renewAfterEnd = 90 * 24 * time.Hour

// applicant is who asks to be let in, as far as he has proven it.
type applicant struct {
	cluster string
	// uid of the registration that he means; only a renewal names it.
	uid string
	// key is the fingerprint of a key that he has the private half of.
	key string
	// kubeSystem is empty when he could not read it.
	kubeSystem string
	// recipient is empty in a renewal: it stays as it is.
	recipient string
	// oscar is empty when it could not say which OSCAR it has.
	oscar string
}

// errNoToken is the answer to every token that opens nothing, whatever the cause: it
// tells nobody which clusters there are.
func errNoToken() error {
	return &Error{Code: CodeForbidden, Message: "the join token is not accepted: it is wrong, for another cluster, or over; ask the administrator for another one (oscarfed cluster join)"}
}

// decideJoin says what becomes of a registration whose syncer joins with a token, and
// whether the token is used by that. Join and reg are nil when there are none.
func decideJoin(join *record.Join, reg *record.Cluster, who applicant, now time.Time) (next *record.Cluster, uses bool, err error) {
	if join == nil || join.ClusterID != who.cluster || now.After(join.ExpiresAt.Time) {
		return nil, false, errNoToken()
	}
	switch {
	case reg == nil || reg.UID != join.ClusterUID:
		return nil, false, &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf("cluster %q was removed since the join token was made", who.cluster)}
	case reg.Removal != nil:
		return nil, false, &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf("cluster %q is being removed; it can be registered again when it is gone", who.cluster)}
	case !admissible(reg):
		return nil, false, &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf("cluster %q is %s: nobody is let in for it until the administrator has ended that", who.cluster, reg.State)}
	case join.UsedBy != "" && (join.UsedBy != who.key || reg.Joined == nil || reg.Joined.Key != who.key):
		return nil, false, &Error{Code: CodeForbidden, Message: "the join token was used already, with another key; ask the administrator for another one. " +
			"If nobody here has used it, somebody else has: tell him"}
	}
	joined := record.Joined{Key: who.key, Recipient: who.recipient, KubeSystemUID: who.kubeSystem, OscarID: who.oscar, At: record.At(now)}
	if old := reg.Joined; old != nil {
		if err := sameCluster(old, who, join.ReplaceKey && join.UsedBy == ""); err != nil {
			return nil, false, err
		}
		if joined.KubeSystemUID == "" && old.Key == who.key {
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

// admissible says whether a registration is one whose syncer has a user in etcd. States
// that are not named here take it away.
func admissible(reg *record.Cluster) bool {
	switch reg.State {
	case record.ClusterActive, record.ClusterPaused, record.ClusterCordoned:
		return true
	}
	return false
}

// sameCluster refuses another key and another Kubernetes than the registered ones.
func sameCluster(old *record.Joined, who applicant, replace bool) error {
	const way = "; if its identity was lost, oscarfed cluster join --replace-key makes a token that takes another one"
	switch {
	case replace:
	case old.Key != who.key:
		return &Error{Code: CodeConflict, Message: fmt.Sprintf("cluster %q has joined with another key", who.cluster) + way}
	case otherKubernetes(old, who):
		return &Error{Code: CodeConflict, Message: fmt.Sprintf("cluster %q has joined from another Kubernetes (namespace kube-system has uid %s here)", who.cluster, who.kubeSystem) + way}
	}
	return nil
}

func otherKubernetes(old *record.Joined, who applicant) bool {
	return old.KubeSystemUID != "" && who.kubeSystem != "" && old.KubeSystemUID != who.kubeSystem
}

// decideRenewal says whether a cluster that has joined gets another certificate. It
// answers what is known of it now; changed says that the record is to be written.
func decideRenewal(joined *record.Joined, who applicant, now time.Time) (next *record.Joined, changed bool, err error) {
	if joined == nil || joined.Key != who.key {
		return nil, false, &Error{Code: CodeForbidden, Message: "no cluster is registered under this id and uid with this key: it was removed, or its key was replaced; " +
			"to join again it needs a token (oscarfed cluster join)"}
	}
	if gone := now.Sub(joined.ValidUntil.Time); gone > renewAfterEnd {
		return nil, false, &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf("the certificate ended on %s, %d days ago; it is renewed for %d days. To join again the cluster needs a token (oscarfed cluster join)",
			joined.ValidUntil.UTC().Format(time.DateOnly), int(gone.Hours()/24), int(renewAfterEnd.Hours()/24))}
	}
	if err := sameCluster(joined, who, false); err != nil {
		return nil, false, err
	}
	out := *joined
	if out.KubeSystemUID == "" && who.kubeSystem != "" {
		out.KubeSystemUID, changed = who.kubeSystem, true
	}
	return &out, changed, nil
}
