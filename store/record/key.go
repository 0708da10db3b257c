package record

import (
	"fmt"
	"net/url"
	"strings"
)

// Root is the prefix of every key of oscarfed.
const Root = "/oscarfed/v1/"

// Fixed keys and prefixes of the control plane. Prefixes end in a slash, so that
// a prefix of cluster c1 never covers cluster c10.
const (
	MetaKey           = Root + "meta"
	ClustersPrefix    = Root + "clusters/"
	FenceKey          = Root + "clusters_fence"
	FederationsPrefix = Root + "federations/"
	NamesPrefix       = Root + "names/"
	HistoryPrefix     = Root + "history/"
	RequestsPrefix    = Root + "requests/"
	DeletedPrefix     = Root + "deleted/"
	SecretsPrefix     = Root + "secrets/"
	OwnersPrefix      = Root + "owners/"
	AuditPrefix       = Root + "audit/"
	ClusterTreePrefix = Root + "c/"
)

// ClusterKey is the registration of one cluster.
func ClusterKey(cluster string) string { return ClustersPrefix + cluster }

// FederationKey is the record of one life of a federation.
func FederationKey(uid string) string { return FederationsPrefix + uid }

// NamesOfPrefix covers the names of an owner's federations.
func NamesOfPrefix(owner string) string { return NamesPrefix + escape(owner) + "/" }

// NameKey maps an owner's group_id to the uid of the federation that holds it.
// The owner may hold any character; it is escaped to one path segment.
func NameKey(owner, groupID string) string {
	return NamesOfPrefix(owner) + groupID
}

// HistoryKey is the submitted service of one generation, without secrets.
func HistoryKey(uid string, generation int64) string {
	return fmt.Sprintf("%s%s/%d", HistoryPrefix, uid, generation)
}

// SecretsKey holds the secrets of the service as it was submitted for one
// generation, sealed to the control plane alone, while the generation is current.
func SecretsKey(federationUID string, generation int64) string {
	return fmt.Sprintf("%s%s/%d", SecretsPrefix, federationUID, generation)
}

// RequestKey is the idempotency record of one request; hash is the lower-case
// hexadecimal SHA-256 of caller, method, path and key.
func RequestKey(hash string) string { return RequestsPrefix + hash }

// DeletedKey remembers, for 90 days, that a replica's tombstone was acknowledged.
func DeletedKey(replicaUID string) string { return DeletedPrefix + replicaUID }

// AuditKey is one entry of the audit; id is a UUIDv7, so that keys are in the order
// of time.
func AuditKey(id string) string { return AuditPrefix + id }

// ClusterPrefix covers all that the syncer of a cluster may read: what is desired,
// what it reports and its session.
func ClusterPrefix(cluster string) string { return ClusterTreePrefix + cluster + "/" }

// DesiredPrefix covers everything that the syncer of a cluster reads.
func DesiredPrefix(cluster string) string { return ClusterTreePrefix + cluster + "/desired/" }

// ObservedPrefix covers everything that the syncer of a cluster reports.
func ObservedPrefix(cluster string) string { return ClusterTreePrefix + cluster + "/observed/" }

// SessionKey is put by a syncer when it starts, and carries its lease.
func SessionKey(cluster string) string { return ClusterTreePrefix + cluster + "/session" }

// DesiredClusterKey is what the syncer must know of its own cluster.
func DesiredClusterKey(cluster string) string { return DesiredPrefix(cluster) + "cluster" }

// ObservedClusterKey is what the syncer knows of its OSCAR.
func ObservedClusterKey(cluster string) string { return ObservedPrefix(cluster) + "cluster" }

// DesiredServicesPrefix covers the desired records of one cluster.
func DesiredServicesPrefix(cluster string) string { return DesiredPrefix(cluster) + "services/" }

// DesiredServiceKey is what is asked of one service name on one cluster.
func DesiredServiceKey(cluster, service string) string {
	return DesiredServicesPrefix(cluster) + service
}

// ObservedServicesPrefix covers the reports about services of one cluster.
func ObservedServicesPrefix(cluster string) string { return ObservedPrefix(cluster) + "services/" }

// ObservedServiceKey is the syncer's report about one service name.
func ObservedServiceKey(cluster, service string) string {
	return ObservedServicesPrefix(cluster) + service
}

// SpecsPrefix covers the rendered services of one cluster.
func SpecsPrefix(cluster string) string { return DesiredPrefix(cluster) + "specs/" }

// SpecName is the value of a desired record's spec field: <service>/<uid>.<generation>.
func SpecName(service, uid string, generation int64) string {
	return fmt.Sprintf("%s/%s.%d", service, uid, generation)
}

// ChangedSpecName is the SpecName of a change. Two changes, or two attempts of one,
// may be rendered for the same generation, and a spec is never overwritten: each
// attempt has the end of an id of its own in its names.
func ChangedSpecName(service, uid string, generation int64, attempt string) string {
	const tail = 8
	return SpecName(service, uid, generation) + "." + attempt[max(0, len(attempt)-tail):]
}

// wholeSpec ends the names of specs without parts where others of the federation have some.
const wholeSpec = ".whole"

// WholeSpecName is the name of such a spec.
func WholeSpecName(name string) string { return name + wholeSpec }

// IsWholeSpec says whether a name is of such a spec.
func IsWholeSpec(name string) bool { return strings.HasSuffix(name, wholeSpec) }

// SpecKey is the immutable rendered service that a desired record points to.
func SpecKey(cluster, specName string) string { return SpecsPrefix(cluster) + specName }

// TokensPrefix covers the sealed tokens that were sent to one cluster.
func TokensPrefix(cluster string) string { return DesiredPrefix(cluster) + "tokens/" }

// AsksPrefix covers the questions to one cluster.
func AsksPrefix(cluster string) string { return DesiredPrefix(cluster) + "asks/" }

// AskKey is a question of the control plane for a service that stands.
func AskKey(cluster, service string) string { return AsksPrefix(cluster) + service }

// ShownKey is the syncer's answer to the question of that name.
func ShownKey(cluster, service string) string { return ObservedPrefix(cluster) + "shown/" + service }

// TokensKey carries sealed tokens of one federation to a cluster.
func TokensKey(cluster, federationUID string) string {
	return TokensPrefix(cluster) + federationUID
}

// escape makes one readable path segment of any text.
func escape(s string) string { return url.PathEscape(s) }

// Kind says what a key holds.
type Kind string

// The kinds of keys.
const (
	KindUnknown         Kind = ""
	KindMeta            Kind = "meta"
	KindInstance        Kind = "instance"
	KindCluster         Kind = "cluster"
	KindFence           Kind = "fence"
	KindElapsed         Kind = "elapsed"
	KindFederation      Kind = "federation"
	KindName            Kind = "name"
	KindHistory         Kind = "history"
	KindRequest         Kind = "request"
	KindDeleted         Kind = "deleted"
	KindSecrets         Kind = "secrets"
	KindAudit           Kind = "audit"
	KindDesiredCluster  Kind = "desired_cluster"
	KindDesiredService  Kind = "desired_service"
	KindSpec            Kind = "spec"
	KindPart            Kind = "part"
	KindTokens          Kind = "tokens"
	KindOwner           Kind = "owner"
	KindObservedCluster Kind = "observed_cluster"
	KindObservedService Kind = "observed_service"
	KindSession         Kind = "session"
	KindAsk             Kind = "ask"
	KindShown           Kind = "shown"
	KindHold            Kind = "hold"
	KindHolding         Kind = "holding"
	KindTokenAsk        Kind = "token_ask"
	KindGranted         Kind = "granted"
	KindWant            Kind = "want"
	KindGrant           Kind = "grant"
	KindReading         Kind = "reading"
	KindJoin            Kind = "join"
	KindJob             Kind = "job"
	KindEvent           Kind = "event"
	KindDecision        Kind = "decision"
	KindReserved        Kind = "reserved"
	KindAssignment      Kind = "assignment"
	KindAssignedEvent   Kind = "assigned_event"
	KindJobReport       Kind = "job_report"
	KindOffer           Kind = "offer"
	KindOfferedEvent    Kind = "offered_event"
	KindOfferAnswer     Kind = "offer_answer"
	KindCapacity        Kind = "capacity"
)

// Ref is a key taken apart. Fields that a kind does not have are empty.
type Ref struct {
	Kind Kind
	// Cluster of a key below c/<cluster>/, clusters/<cluster> or reserved/<cluster>.
	Cluster string
	// Name is the service of a desired or observed service and of a spec, the
	// uid of a federation, history, secrets, deleted or tokens key and of those below
	// that, the id of a reading or of an audit entry, the hash of a request or of a
	// join token, a job, or the group_id of a name; the uid of a part's federation.
	Name string
	// Owner of a names or owners key, unescaped.
	Owner string
	// Rest is what follows Name: <uid>.<generation> of a spec, <generation> of a
	// history or secrets key, the cluster that asks of a token_ask or granted key, the
	// number of a job's attempt, the name of a part.
	Rest string
}

// ParseKey takes a key apart. An unknown key has KindUnknown; it never fails.
func ParseKey(key string) Ref {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		return Ref{}
	}
	switch key {
	case MetaKey:
		return Ref{Kind: KindMeta}
	case FenceKey:
		return Ref{Kind: KindFence}
	case ElapsedKey:
		return Ref{Kind: KindElapsed}
	}
	head, tail, ok := strings.Cut(rest, "/")
	if !ok || tail == "" {
		return Ref{}
	}
	switch head {
	case "clusters":
		return single(Ref{Kind: KindCluster, Cluster: tail}, tail)
	case "federations":
		return single(Ref{Kind: KindFederation, Name: tail}, tail)
	case "requests":
		return single(Ref{Kind: KindRequest, Name: tail}, tail)
	case "deleted":
		return single(Ref{Kind: KindDeleted, Name: tail}, tail)
	case "instances":
		return single(Ref{Kind: KindInstance, Name: tail}, tail)
	case "joins":
		return single(Ref{Kind: KindJoin, Name: tail}, tail)
	case "audit":
		return single(Ref{Kind: KindAudit, Name: tail}, tail)
	case "jobs":
		return single(Ref{Kind: KindJob, Name: tail}, tail)
	case "events":
		return single(Ref{Kind: KindEvent, Name: tail}, tail)
	case "decisions":
		return parseAttempt(Ref{Kind: KindDecision}, tail)
	case "reserved":
		return single(Ref{Kind: KindReserved, Cluster: tail}, tail)
	case "names":
		return parseName(tail)
	case "owners":
		return parseOwner(tail)
	case "history":
		return parseGeneration(KindHistory, tail)
	case "secrets":
		return parseGeneration(KindSecrets, tail)
	case "parts":
		return parseGeneration(KindPart, tail)
	case "c":
		return parseClusterTree(tail)
	}
	return Ref{}
}

func single(r Ref, segment string) Ref {
	if strings.Contains(segment, "/") {
		return Ref{}
	}
	return r
}

func parseGeneration(kind Kind, tail string) Ref {
	uid, generation, ok := strings.Cut(tail, "/")
	if !ok || uid == "" || generation == "" || strings.Contains(generation, "/") {
		return Ref{}
	}
	return Ref{Kind: kind, Name: uid, Rest: generation}
}

func parseName(tail string) Ref {
	owner, group, ok := strings.Cut(tail, "/")
	if !ok || owner == "" || group == "" || strings.Contains(group, "/") {
		return Ref{}
	}
	plain, err := url.PathUnescape(owner)
	if err != nil {
		return Ref{}
	}
	return Ref{Kind: KindName, Owner: plain, Name: group}
}

func parseClusterTree(tail string) Ref {
	cluster, rest, ok := strings.Cut(tail, "/")
	if !ok || cluster == "" {
		return Ref{}
	}
	switch rest {
	case "session":
		return Ref{Kind: KindSession, Cluster: cluster}
	case "desired/cluster":
		return Ref{Kind: KindDesiredCluster, Cluster: cluster}
	case "observed/cluster":
		return Ref{Kind: KindObservedCluster, Cluster: cluster}
	case "observed/capacity":
		return Ref{Kind: KindCapacity, Cluster: cluster}
	}
	for prefix, kind := range map[string]Kind{
		"desired/services/":  KindDesiredService,
		"observed/services/": KindObservedService,
		"observed/audit/":    KindReading,
		"desired/asks/":      KindAsk,
		"observed/shown/":    KindShown,
		"observed/offers/":   KindOffer,
		"observed/events/":   KindOfferedEvent,
		"desired/offers/":    KindOfferAnswer,
	} {
		if name, ok := strings.CutPrefix(rest, prefix); ok && name != "" {
			return single(Ref{Kind: kind, Cluster: cluster, Name: name}, name)
		}
	}
	for prefix, kind := range map[string]Kind{
		"desired/jobs/":   KindAssignment,
		"desired/events/": KindAssignedEvent,
		"observed/jobs/":  KindJobReport,
	} {
		if name, ok := strings.CutPrefix(rest, prefix); ok {
			return parseAttempt(Ref{Kind: kind, Cluster: cluster}, name)
		}
	}
	for prefix, desired := range map[string]bool{"desired/tokens/": true, "observed/tokens/": false} {
		if tail, ok := strings.CutPrefix(rest, prefix); ok {
			return parseTokens(Ref{Cluster: cluster}, tail, desired)
		}
	}
	if name, ok := strings.CutPrefix(rest, "desired/specs/"); ok {
		service, life, ok := strings.Cut(name, "/")
		if !ok || service == "" || life == "" || strings.Contains(life, "/") {
			return Ref{}
		}
		return Ref{Kind: KindSpec, Cluster: cluster, Name: service, Rest: life}
	}
	return Ref{}
}
