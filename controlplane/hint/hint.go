package hint

import (
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// words are what to do about a reason; CLUSTER stands for the cluster's id. A reason without words
// passes by itself.
var words = map[record.Reason]string{ //nolint:gochecknoglobals // a constant
	record.ReasonNameTaken:          "a service of that name is there and is not ours: choose another name, or have its owner delete it",
	record.ReasonForeignBucket:      "a bucket of that name is there and is not ours: choose another path, or have its owner delete it",
	record.ReasonBucketLeft:         "the bucket of an earlier life of the service is there: delete it, or create the service as the same owner",
	record.ReasonCredentialRefused:  "the administrator of CLUSTER has to check its credentials and who may use it",
	record.ReasonNotAllowed:         "the administrator of CLUSTER has to check its credentials and who may use it",
	record.ReasonDoesNotFit:         "ask for less cpu, memory or GPU, or take a cluster with larger nodes",
	record.ReasonInputsUnreadable:   "see that CLUSTER reaches the MinIO and the OSCAR of the coordinator's cluster, by the names that they are registered and reported with",
	record.ReasonUnsupportedVersion: "CLUSTER needs OSCAR v4.1 or later",
	record.ReasonInvalidService:     "read the message: the OSCAR of CLUSTER refused the definition",
	record.ReasonCreateFailed:       "read the message: the OSCAR of CLUSTER refused the definition",
	record.ReasonUpdateFailed:       "read the message: the OSCAR of CLUSTER refused the definition",
	record.ReasonNoVote:             syncerRuns,
	record.ReasonSessionLost:        syncerRuns,
	record.ReasonQueueTooLong:       "the writes of CLUSTER have to wait too long: try again later, or take another cluster",
	record.ReasonOscarUnreachable:   "see that the OSCAR of CLUSTER answers; its syncer tries again by itself",
	record.ReasonStorageUnreachable: "see that the MinIO of CLUSTER answers; its syncer tries again by itself",
	record.ReasonDeleteFailed:       "read the message: CLUSTER keeps the service; it is tried again by itself",
	record.ReasonDetachFailed:       "read the message: the OSCAR of CLUSTER keeps the service; it is tried again by itself",
	record.ReasonDriftUnfixable:     "somebody changes the service on CLUSTER again and again: stop them, or use drift: report",
	record.ReasonWebhookLost:        "if the bucket on CLUSTER is empty, delete it there, and it is made again as it was; else add its notification and tags yourself",
	record.ReasonMarkLost:           "our marks were taken off the service on CLUSTER: delete it there, and it is created again",
	record.ReasonAheadOfDesired: "the service on CLUSTER is not in the history of the store, which was restored: " +
		"oscarfed describe lists what differs, oscarfed resolve ends it",
	record.ReasonStoreRestored:     "if etcd was restored, start one control plane with --restored, once: the syncer of CLUSTER changes nothing before",
	record.ReasonNeedsUserToken:    "call oscarfed token refresh with a fresh access token of your own, or give a refresh token: oscarfed token set",
	record.ReasonTokenLost:         "give another refresh token: oscarfed token set",
	record.ReasonTokenHolderAway:   "the cluster that holds the refresh token is away; it goes on when that is back",
	record.ReasonPaused:            "the federation is paused, or CLUSTER is by its administrator",
	record.ReasonSecretsLost:       "a restore has lost secrets of the federation: apply its definition with them, or without them",
	record.ReasonSameOscar:         "the OSCAR of CLUSTER is registered under another id too: remove one of the two",
	record.ReasonOtherIdentity:     "the syncer of CLUSTER is not the one that joined: see which is the right one, and join again",
	record.ReasonOtherRegistration: "the OSCAR of CLUSTER belongs to another registration: see which is the right one",
	record.ReasonNewerVersion:      "bring all instances and syncers to the same version",
}

const syncerRuns = "see that the syncer of CLUSTER runs and reaches the control plane; it catches up by itself"

// ForReason is what to do about a reason on a cluster; empty when it passes by itself.
func ForReason(reason record.Reason, cluster string) string {
	return strings.ReplaceAll(words[reason], "CLUSTER", cluster)
}

// ForInputs is what to do about a replica that cannot use the storage of its origin.
func ForInputs(reason record.Reason, cluster, origin string) string {
	out := "it gets no jobs until the MinIO of " + origin + " can be used from there"
	if do := ForReason(reason, cluster); do != "" {
		out += ": " + do
	}
	return out
}

// ForCluster is what to do about a registered cluster. connected says that it had a syncer before.
func ForCluster(id string, state record.ClusterState, alive, connected bool, reason record.Reason) string {
	switch {
	case state == record.ClusterRevoked:
		return "the administrator has to see why it wrote so much, and let it in again: oscarfed cluster readmit " + id
	case state == record.ClusterRemoving:
		return ""
	case !alive && !connected:
		return "start its syncer: oscarfed cluster join " + id + " says how"
	case !alive:
		return ForReason(record.ReasonSessionLost, id)
	}
	return ForReason(reason, id)
}

// ForJob is what to do about a job in a state, for a reason.
func ForJob(id string, state record.JobState, reason record.JobReason) string {
	switch state {
	case record.JobUncertain:
		return "find out whether it has run, then say so: oscarfed job resolve " + id
	case record.JobParked:
		if reason == record.JobServiceGone {
			return "send the event to a member of the federation"
		}
		return "mend what refused it, then start it again: oscarfed job replay " + id
	case record.JobVanished:
		return "it may have run: look for its output, and send the event again if there is none"
	}
	switch reason {
	case record.JobNoCandidate:
		return "see why no member can take it: oscarfed explain job " + id
	case record.JobNeedsUserToken:
		return "give a refresh token, or call with an access token of your own: oscarfed token set"
	case record.JobInputsUnreadable:
		return "see that its cluster reaches the MinIO of the coordinator's cluster"
	case record.JobPodWaits, record.JobCannotStart:
		return "read what its pod says: the image, the command or what it asks for has to change"
	case record.JobStoreRestored:
		return "it waits until every member has said whether it has it: see that their syncers run"
	default:
		return ""
	}
}
