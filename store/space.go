package store

import (
	"fmt"
	"strings"
	"time"
)

// SpaceLevel says what etcd takes.
type SpaceLevel string

// The levels.
const (
	// SpaceUnknown: no member has told its figures yet.
	SpaceUnknown SpaceLevel = "unknown"
	// SpaceOK: everything may be written.
	SpaceOK SpaceLevel = "ok"
	// SpaceShort: nothing that adds is to be written, so that tombstones, reports
	// and sessions, which are puts as well, still go through.
	SpaceShort SpaceLevel = "short"
	// SpaceFull: etcd has raised its alarm NOSPACE and refuses every put and every
	// new lease. Reads, transactions that only delete, and leases that live go on.
	SpaceFull SpaceLevel = "full"
)

// The soft limits. etcd counts the size of its database file against its quota,
// free pages included, so there are two.
const (
	// inUsePercent of the quota may be in use: what is left is for everything but
	// creates and changes.
	inUsePercent = 85
	// The file itself may grow up to a twentieth of the quota, at least reserveBytes,
	// below the quota. Within the reserve one large transaction could raise the
	// alarm although there are free pages. A quarter of a small quota is enough.
	reservePart, reserveBytes, reserveMost = 20, 4 << 20, 4
	// gainPart of the quota must be free within the file to make it worth blocking
	// a member while it writes the file anew.
	gainPart = 10
)

// SpaceMember is what one etcd member says of its database. Sizes are in bytes.
type SpaceMember struct {
	ID uint64
	// Endpoint is the URL that it answered at.
	Endpoint string
	// Size of the file, and how much of it is in use.
	Size, InUse int64
	// Quota of the file's size; negative when there is none.
	Quota  int64
	Leader bool
	// Read is how long it took to answer a linearizable read, or until that was given up.
	Read time.Duration
}

// limited says whether the member has a quota.
func (m SpaceMember) limited() bool { return m.Quota > 0 }

// sizeLimit is how large the file may become.
func (m SpaceMember) sizeLimit() int64 { return m.Quota - m.reserve() }

func (m SpaceMember) reserve() int64 {
	return max(m.Quota/reservePart, min(reserveBytes, m.Quota/reserveMost))
}

// full: half of the reserve is gone, too. Below that the alarm is taken back, so that what is short
// of space takes deletions and reports: else nobody could delete what fills it.
func (m SpaceMember) full() bool { return m.limited() && m.Size >= m.Quota-m.reserve()/2 }

// crowded: so much is in use that writing the file anew gives nothing back.
func (m SpaceMember) crowded() bool { return m.limited() && m.InUse >= m.Quota/100*inUsePercent }

// swollen: the file comes near to the quota, whatever is free within.
func (m SpaceMember) swollen() bool { return m.limited() && m.Size >= m.sizeLimit() }

// defragmentable: the file is too large, and writing it anew makes it smaller.
func (m SpaceMember) defragmentable() bool {
	return m.swollen() && m.Size-m.InUse >= m.Quota/gainPart
}

// free is how many bytes more it takes before it is crowded or swollen, free pages
// within its file included.
func (m SpaceMember) free() int64 {
	return max(min(m.Quota/100*inUsePercent, m.sizeLimit())-m.InUse, 0)
}

// overfull: only less content helps.
func (m SpaceMember) overfull() bool { return m.crowded() || m.swollen() && !m.defragmentable() }

// fill is how near a member is to its nearest limit; 1 is at it.
func (m SpaceMember) fill() float64 {
	if !m.limited() {
		return 0
	}
	return max(float64(m.InUse)/float64(m.Quota/100*inUsePercent+1), float64(m.Size)/float64(m.sizeLimit()+1))
}

// Space is what is known of etcd's space.
type Space struct {
	Level SpaceLevel
	// Worst is the member that is nearest to its limits.
	Worst SpaceMember
	// Members that answered, by endpoint; Silent are endpoints that did not.
	Members []SpaceMember
	Silent  []string
	// Denied says that etcd does not let this user make space. Commands are then what a user with
	// the role root has to run.
	Denied   bool
	Commands []string
	// Step is the step of the recovery that this process is at; empty for none.
	Step string

	// alarms are the members that have raised NOSPACE.
	alarms []uint64
	// revision is the newest that a member told.
	revision int64
}

// Tight says whether nothing that adds may be written, and space is to be made.
func (s Space) Tight() bool { return s.Level == SpaceShort || s.Level == SpaceFull }

// Advice tells people how it stands and what to do; empty when nothing is wrong.
func (s Space) Advice() string {
	var out string
	switch {
	case s.Level == SpaceFull:
		out = "etcd is full and refuses every write"
	case s.Level == SpaceShort:
		out = "etcd is short of space; creates and changes are refused, deletions and reports go on"
	default:
		return ""
	}
	out += ": " + s.Figures()
	switch {
	case s.Denied:
		return out + ". The control plane's etcd user may not make space; run as root: " + strings.Join(s.Commands, "; ")
	case s.Step != "":
		return out + ". Space is being made: " + s.Step
	case s.Worst.crowded():
		return out + ". Delete federations that are not needed, keep less history (--etcd-retention), or give etcd a larger quota (--etcd-quota)"
	}
	return out + ". It is compacted and defragmented by itself"
}

// Figures are the sizes of the member that is nearest to its limits.
func (s Space) Figures() string {
	return fmt.Sprintf("the database has %s, %s of them in use, and its quota is %s",
		mebibytes(s.Worst.Size), mebibytes(s.Worst.InUse), mebibytes(s.Worst.Quota))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// judge gives the level of members and their alarms.
func (s *Space) judge() {
	s.Level = SpaceOK
	if len(s.Members) > 0 {
		s.Worst = s.Members[0]
	}
	for _, m := range s.Members {
		if m.fill() > s.Worst.fill() {
			s.Worst = m
		}
		if m.crowded() || m.swollen() {
			s.Level = SpaceShort
		}
	}
	if len(s.alarms) > 0 {
		s.Level = SpaceFull
	}
}
