package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/hint"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// maxMessage bounds the sentence of an event, in bytes.
const maxMessage = 600

// derivation makes events of the records that one refresh has replaced.
type derivation struct {
	v   *view.View
	now time.Time
	out []*happened
}

// derive gives the events of a refresh, in an order in which a cause is told before its effects.
func derive(v *view.View, news *view.Changes, now time.Time) []*happened {
	d := &derivation{v: v, now: now}
	if m := news.Records.Meta; m.Old != nil && m.New != nil && m.Old.Epoch != m.New.Epoch {
		d.tell(happened{SystemEvent: v1.SystemEvent{
			Kind: v1.AboutSystem, Severity: v1.SeverityWarning, Reason: "StoreRestored",
			Message: "the store was restored from a backup, and every cluster is compared with it",
			Hint:    "oscarfed describe lists what differs, oscarfed resolve ends it",
		}})
	}
	for _, r := range news.Records.Clusters {
		d.registration(r)
	}
	for _, r := range news.Records.Sessions {
		d.session(r)
	}
	for _, r := range news.Records.Selfs {
		d.trouble(r)
	}
	for _, r := range news.Records.Federations {
		d.federation(r.Old, r.New)
	}
	for _, r := range news.Records.Observed {
		d.replica(r)
	}
	for _, m := range news.JobMoves() {
		d.job(m)
	}
	return d.out
}

func (d *derivation) tell(h happened) {
	h.Revision, h.At = d.v.Revision, v1.Time{Time: d.now}
	h.Message, h.private = view.Shorten(h.Message, maxMessage), view.Shorten(h.private, maxMessage)
	h.Severity = cmp.Or(h.Severity, v1.SeverityInfo)
	if f := d.v.Federations.Get(h.Federation).Rec; f != nil {
		h.visibility, h.allowed = f.Visibility, f.AllowedUsers
	}
	d.out = append(d.out, &h)
}

// cluster tells of a cluster; private is for the administrator.
func (d *derivation) cluster(id, severity, reason, cause, message, private, do string) {
	d.tell(happened{private: private, SystemEvent: v1.SystemEvent{
		Kind: v1.AboutCluster, Severity: severity, ClusterID: id, Reason: reason, Cause: cause, Message: message, Hint: do,
	}})
}

func (d *derivation) registration(r view.Reported[record.Cluster]) {
	old, now := r.Old, r.New
	info := func(reason, message string) { d.cluster(r.Cluster, v1.SeverityInfo, reason, "", message, "", "") }
	switch {
	case old == nil && now == nil:
	case now == nil:
		info("ClusterRemoved", "the cluster is not registered any more")
	case old == nil || old.UID != now.UID:
		d.cluster(r.Cluster, v1.SeverityInfo, "ClusterRegistered", "", "the cluster is registered", "",
			hint.ForCluster(r.Cluster, now.State, d.v.Alive(r.Cluster), false, ""))
	case old.Revoked == nil && now.Revoked != nil:
		d.cluster(r.Cluster, v1.SeverityWarning, "ClusterRevoked", "", "the cluster has lost its rights, since it has written more than it may",
			now.Revoked.Message, hint.ForCluster(r.Cluster, record.ClusterRevoked, false, true, ""))
	case old.State != now.State && now.State == record.ClusterCordoned:
		info("ClusterCordoned", "nothing new is placed on the cluster")
	case old.State != now.State && now.State == record.ClusterPaused:
		info("ClusterPaused", "nothing is changed on the cluster until it resumes")
	case old.State != now.State && now.State == record.ClusterRemoving:
		info("ClusterRemoving", "the cluster is being removed")
	case old.State != now.State && now.State == record.ClusterActive:
		info("ClusterResumed", "the cluster takes services and changes again")
	case now.Joined != nil && (old.Joined == nil || old.Joined.Recipient != now.Joined.Recipient):
		info("ClusterJoined", "a syncer has joined for the cluster")
	}
}

func (d *derivation) session(r view.Reported[record.Session]) {
	if _, registered := d.v.Clusters.Lookup(r.Cluster); !registered {
		return
	}
	switch {
	case r.Old != nil && r.New == nil:
		d.cluster(r.Cluster, v1.SeverityWarning, "ClusterAway", string(record.ReasonSessionLost), "the syncer of the cluster is not connected any more", "",
			hint.ForReason(record.ReasonSessionLost, r.Cluster))
	case r.Old == nil && r.New != nil:
		d.cluster(r.Cluster, v1.SeverityInfo, "ClusterBack", "", "the syncer of the cluster is connected", "", "")
	}
}

// trouble tells that a syncer cannot work with its OSCAR, or can again.
func (d *derivation) trouble(r view.Reported[record.ObservedCluster]) {
	reasonOf := func(o *record.ObservedCluster) record.Reason {
		if o == nil {
			return ""
		}
		return o.Reason
	}
	was, is := reasonOf(r.Old), reasonOf(r.New)
	switch {
	case was == is:
	case is == "":
		d.cluster(r.Cluster, v1.SeverityInfo, "ClusterRecovered", string(was), "the syncer works with the OSCAR of the cluster again", "", "")
	default:
		d.cluster(r.Cluster, v1.SeverityWarning, "ClusterTrouble", string(is), "the syncer cannot work with the OSCAR of the cluster", r.New.Message,
			hint.ForReason(is, r.Cluster))
	}
}

// about is an event about a federation.
func about(f *record.Federation, reason, message string) happened {
	return happened{SystemEvent: v1.SystemEvent{
		Kind: v1.AboutFederation, Reason: reason, Message: message, Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner,
	}}
}

func (d *derivation) federation(old, now *record.Federation) {
	switch {
	case now == nil:
		if old != nil && !old.Phase.Result() {
			d.tell(about(old, "Deleted", "the federation is deleted"))
		}
		return
	case old == nil:
		if now.Phase == record.PhasePreparing || now.Phase == record.PhaseApplying {
			d.tell(about(now, "CreationBegun", "its clusters are asked: "+names(now.Members)))
		}
		return
	case old.Phase != now.Phase:
		d.phase(now)
	}
	if old.Phase == record.PhaseReady || old.Phase == record.PhaseDegraded {
		d.members(old, now)
	}
	if r := now.Refused; r != nil && (old.Refused == nil || old.Refused.RequestID != r.RequestID) {
		d.warn(about(now, "ChangeRefused", r.Detail), r.Code, hintOf(r.Members))
	}
	switch {
	case old.Paused == now.Paused:
	case now.Paused:
		d.tell(about(now, "Paused", "nothing is changed on its clusters until it resumes"))
	default:
		d.tell(about(now, "Resumed", "its clusters are brought to what is desired again"))
	}
}

func (d *derivation) warn(h happened, cause, do string) {
	h.Severity, h.Cause, h.Hint = v1.SeverityWarning, cause, do
	d.tell(h)
}

// phase tells of the outcome of a creation, and of the beginning of a deletion.
func (d *derivation) phase(f *record.Federation) {
	switch f.Phase {
	case record.PhaseReady:
		d.tell(about(f, "Created", "it is ready on "+names(f.Members)))
	case record.PhaseAborted:
		d.warn(about(f, "CreationAborted", "nothing was created: "+f.Detail), f.Code, hintOf(f.Members))
	case record.PhaseRollingBack:
		d.warn(about(f, "CreationFailed", "the creation is taken back: "+f.Detail), f.Code, hintOf(f.Members))
	case record.PhaseRolledBack:
		d.tell(about(f, "RolledBack", "the creation is taken back on every cluster"))
	case record.PhaseDeleting:
		d.tell(about(f, "Deleting", "it is being deleted on "+names(f.Members)))
	}
}

// members tells of a new generation, and of members that came or went with it.
func (d *derivation) members(old, now *record.Federation) {
	if now.Generation != old.Generation {
		d.tell(about(now, "Changed", fmt.Sprintf("generation %d is in force", now.Generation)))
	}
	for _, m := range now.Members {
		if m.Replica() && view.MemberOf(old.Members, m.UID) < 0 {
			d.tell(aboutMember(now, m, "MemberAdded", "the replica joins the federation"))
		}
	}
	for _, m := range old.Members {
		if m.Replica() && view.MemberOf(now.Members, m.UID) < 0 && now.Phase != record.PhaseDeleting {
			d.tell(aboutMember(now, m, "MemberRemoved", "the replica leaves the federation"))
		}
	}
}

func aboutMember(f *record.Federation, m record.Member, reason, message string) happened {
	h := about(f, reason, message)
	h.Kind, h.ClusterID, h.ServiceName = v1.AboutReplica, m.ClusterID, m.ServiceName
	return h
}

// hintOf is what to do about the first member with a cause.
func hintOf(members []record.Member) string {
	for _, m := range members {
		if m.Cause == nil {
			continue
		}
		if do := hint.ForReason(m.Cause.Reason, m.ClusterID); do != "" {
			return do
		}
	}
	return ""
}

// maxNamed is how many members a sentence names.
const maxNamed = 4

func names(members []record.Member) string {
	var all []string
	for _, m := range members {
		if m.Replica() {
			all = append(all, m.ClusterID+"/"+m.ServiceName)
		}
	}
	if more := len(all) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), more)
	}
	return strings.Join(all, ", ")
}

// replica tells what a syncer has found on its cluster.
func (d *derivation) replica(r view.Reported[record.Observed]) {
	desired := d.v.Desired(r.Cluster, r.Service).Rec
	if r.New == nil || desired == nil || desired.UID != r.New.UID || desired.Tombstone() {
		return
	}
	f := d.v.Federations.Get(desired.Federation).Rec
	if f == nil {
		return
	}
	old := &record.Observed{}
	if r.Old != nil && r.Old.UID == r.New.UID {
		old = r.Old
	}
	d.inputs(f, r, old)
	if reason, message := transition(old, r.New); reason != "" {
		h := about(f, reason, message)
		h.Kind, h.ClusterID, h.ServiceName = v1.AboutReplica, r.Cluster, r.Service
		switch r.New.Phase {
		case record.PhaseReady:
			d.tell(h)
		default:
			d.warn(h, string(r.New.Reason), hint.ForReason(r.New.Reason, r.Cluster))
		}
	}
}

// transition is one word for what a report tells beyond the one before it, and a sentence; empty
// when it is no news.
func transition(old, now *record.Observed) (reason, message string) {
	if now.Phase == record.PhaseReady {
		return repaired(old, now)
	}
	if old.Phase == now.Phase && old.Reason == now.Reason {
		return "", ""
	}
	switch now.Phase {
	case record.PhaseDrifted:
		return "DriftFound", now.Message
	case record.PhaseFailed:
		return "ReplicaFailed", now.Message
	case record.PhaseHeld:
		return "ReplicaHeld", now.Message
	case record.PhaseWedged:
		return "ReplicaWedged", now.Message
	case record.PhaseRefused:
		return "ReplicaRefused", now.Message
	}
	return "", ""
}

// repaired tells of a replica that is ready after trouble. A repair may be over before the drift
// was seen here: then only the time of the report has changed.
func repaired(old, now *record.Observed) (reason, message string) {
	switch {
	case old.Phase == record.PhaseDrifted,
		old.Phase == record.PhaseReady && old.ObservedGeneration == now.ObservedGeneration && !old.LastTransitionTime.Equal(now.LastTransitionTime.Time):
		return "DriftRepaired", "the service is as desired again"
	case slices.Contains([]record.Phase{record.PhaseFailed, record.PhaseHeld, record.PhaseWedged}, old.Phase):
		return "ReplicaReady", "the service is as desired"
	}
	return "", ""
}

// inputs tells that a replica lost, or has got back, the storage of its origin.
func (d *derivation) inputs(f *record.Federation, r view.Reported[record.Observed], old *record.Observed) {
	now := r.New.Inputs
	if now == nil || old.Inputs != nil && old.Inputs.Readable == now.Readable || old.Inputs == nil && now.Readable {
		return
	}
	h := about(f, "InputsReadable", "the replica can use the storage of its origin again")
	h.Kind, h.ClusterID, h.ServiceName = v1.AboutReplica, r.Cluster, r.Service
	if now.Readable {
		d.tell(h)
		return
	}
	h.Reason, h.Message = "InputsUnreadable", now.Message
	origin := ""
	if c := f.Coordinator(); c != nil {
		origin = c.ClusterID
	}
	d.warn(h, string(now.Reason), hint.ForInputs(now.Reason, r.Cluster, origin))
}

// job tells of a job that waits for a person, or may be lost.
func (d *derivation) job(m view.JobMove) {
	var reason, message string
	switch m.To {
	case record.JobUncertain:
		reason, message = "JobUncertain", "it is not known whether the job has run"
	case record.JobParked:
		reason, message = "JobParked", "every attempt of the job was refused"
		if m.Job.Reason == record.JobServiceGone { // and none may have been made
			message = "no member takes the job any more"
		}
	case record.JobVanished:
		reason, message = "JobVanished", "the cluster does not know the job any more"
	default:
		return
	}
	j := m.Job
	if j.Message != "" {
		message += ": " + j.Message
	}
	h := happened{sender: j.By, SystemEvent: v1.SystemEvent{
		Kind: v1.AboutJob, Reason: reason, Message: message, Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner,
		ClusterID: j.Cluster, ServiceName: j.Service, Job: j.Job,
	}}
	if j.Place != nil && j.Place.ClusterID != "" {
		h.ClusterID, h.ServiceName = j.Place.ClusterID, j.Place.ServiceName
	}
	d.warn(h, string(j.Reason), hint.ForJob(j.Job, m.To, j.Reason))
}
