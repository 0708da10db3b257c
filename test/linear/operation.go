package linear

import (
	"fmt"
	"strings"
)

// Kind is what an operation asks for.
type Kind uint8

// The operations of clients, and the point at which one of them was over.
const (
	Create     Kind = iota
	Delete          // of the coordinator: of the federation
	Change          // PUT of a definition with its members
	Add             // of members
	Remove          // of members
	Get             // the replicas, as one of them sees them
	GetService      // the definition, as the coordinator shows it
	settled         // the operation of this id has been answered: nothing of it is under way
)

func (k Kind) String() string {
	return [...]string{"create", "delete", "change", "add", "remove", "get", "get service", "settled"}[k]
}

// Places are places for replicas of a federation, one bit each. Bit 0 is the
// coordinator's.
type Places uint8

// coordinator is in every federation.
const coordinator Places = 1

func (p Places) has(q Places) bool { return p&q == q }

func (p Places) count() (n int) {
	for ; p != 0; p &= p - 1 {
		n++
	}
	return n
}

// String names places as letters: a is the coordinator's.
func (p Places) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 8 {
		if p&(1<<i) != 0 {
			b.WriteByte(byte('a' + i))
		}
	}
	b.WriteByte('}')
	return b.String()
}

// Input is one operation.
type Input struct {
	Kind Kind
	// ID of the request; a creation that is sent again under its Idempotency-Key
	// has the same. It is also the version of the definition that it carries.
	ID int
	// Places that are wanted, added or removed, or the one that is asked.
	Places Places
	// IfMatch is the revision that a change is bound to; 0 for none.
	IfMatch int64
	// Keyed says that the creation is sent more than once.
	Keyed bool
}

// Answer is what a client was told.
type Answer uint8

// The answers.
const (
	// Unknown: it may have happened, or may still, or never.
	Unknown Answer = iota
	// OK: it has happened.
	OK
	// Nothing: it surely has not happened and will not.
	Nothing
	// NotFound: there is no such service.
	NotFound
	// Exists: the name or a place is taken.
	Exists
	// Conflict: not in this state, or not at this revision.
	Conflict
	// Aborted: a vote was no, or missing.
	Aborted
	// RolledBack: a replica failed.
	RolledBack
	// Gone: it was accepted, and the federation deleted before its end.
	Gone
	// Strange: an answer that may never be given.
	Strange
)

func (a Answer) String() string {
	return [...]string{"unknown", "ok", "nothing", "not found", "exists", "conflict", "aborted", "rolled back", "gone", "STRANGE"}[a]
}

// Output is how an operation ended.
type Output struct {
	Answer Answer
	// View is what a read has seen.
	View View
	// Text is for people.
	Text string
}

// View is one federation as it was shown.
type View struct {
	UID        string
	Phase      string
	Generation int64
	Revision   int64
	Members    Places
	// Definition is the version of the definition, of GetService alone.
	Definition int
}

// Describe tells of one operation in a line.
func Describe(in Input, out Output) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s", in.ID, in.Kind)
	if in.Places != 0 {
		fmt.Fprintf(&b, " %s", in.Places)
	}
	if in.IfMatch != 0 {
		fmt.Fprintf(&b, " if-match %d", in.IfMatch)
	}
	if in.Keyed {
		b.WriteString(" keyed")
	}
	fmt.Fprintf(&b, " -> %s", out.Answer)
	switch v := out.View; {
	case out.Answer != OK:
	case in.Kind == Get:
		fmt.Fprintf(&b, " %s gen %d rev %d %s", v.Phase, v.Generation, v.Revision, v.Members)
	case in.Kind == GetService:
		fmt.Fprintf(&b, " definition %d %s", v.Definition, v.Members)
	}
	if out.Text != "" {
		fmt.Fprintf(&b, " (%s)", out.Text)
	}
	return b.String()
}
