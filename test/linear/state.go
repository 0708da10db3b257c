package linear

import (
	"fmt"
	"strings"
)

// life is how far a federation has come.
type life uint8

const (
	absent   life = iota // also the kept result of a creation that failed
	creating             // accepted; its outcome is decided without clients
	rolling              // being rolled back: it still holds its name
	present
)

// fate is what a creation or a change may come to.
type fate uint8

const (
	succeeds fate = 1 << iota
	aborts        // votes are no; nothing was made
	rollsBack
	drops  // with the federation that it was to change
	anyhow = succeeds | aborts | rollsBack | drops
)

// state of one service name, whichever federation it is in. It is a value: two
// equal states have the same future.
type state struct {
	life life
	// by is the creation that made this life, uid its identifier once it was seen.
	by  int
	uid string
	// definition and members are the present ones, generation counts them.
	definition int
	members    Places
	generation int64
	// revision of the federation's record when exact, else one that it has passed;
	// of a creation, one that it has reached.
	revision int64
	exact    bool
	// fate of a creation, or of the change that waits for votes.
	fate fate
	// change is the one that waits for votes; 0 for none. Then follow what it makes.
	change           int
	changeDefinition int
	changeMembers    Places
	// held are places that a tombstone may hold, and bumps how often the revision
	// may still move because tombstones of removed members are acknowledged.
	held  Places
	bumps int
	// failed says that a creation has failed, whose result may be kept.
	failed bool
	// done tells how creations ended that are sent more than once.
	done string
}

func (s state) String() string {
	switch s.life {
	case absent:
		return fmt.Sprintf("absent, held %s%s", s.held, s.done)
	case creating, rolling:
		return fmt.Sprintf("%s by #%d %s rev>=%d%s", map[life]string{creating: "creating", rolling: "rolling back"}[s.life], s.by, s.members, s.revision, s.done)
	}
	relation := ">"
	if s.exact {
		relation = "="
	}
	out := fmt.Sprintf("#%d def %d gen %d rev%s%d %s held %s bumps %d%s",
		s.by, s.definition, s.generation, relation, s.revision, s.members, s.held, s.bumps, s.done)
	if s.change != 0 {
		out += fmt.Sprintf(" change #%d to %s", s.change, s.changeMembers)
	}
	return out
}

// gone is the state after a life, whose places tombstones may hold.
func (s state) gone(held Places) state {
	return state{life: absent, revision: s.revision, held: s.held | held, failed: s.failed, done: s.done}
}

// ended notes how the creation of this life ended.
func (s state) ended(how Answer) state {
	s.failed = s.failed || how != OK
	mark := fmt.Sprintf(" #%d:", s.by)
	if !strings.Contains(s.done, mark+"?") {
		return s // it is sent once
	}
	s.done = strings.Replace(s.done, mark+"?", mark+string("0123456789"[how]), 1)
	return s
}

// asked tells how a creation that is sent more than once ended; found is false
// before it was accepted, and the answer Unknown while it is under way.
func (s state) asked(id int) (how Answer, found bool) {
	_, rest, found := strings.Cut(s.done, fmt.Sprintf(" #%d:", id))
	if !found || rest[0] == '?' {
		return Unknown, found
	}
	return Answer(rest[0] - '0'), true
}

// futures are the states that s may come to without a client, s among them.
func (s state) futures() []state {
	out := []state{s}
	switch s.life {
	case creating:
		if s.fate&succeeds != 0 {
			next := s.ended(OK)
			next.life, next.fate, next.exact = present, 0, false
			out = append(out, next)
		}
		if s.fate&aborts != 0 {
			out = append(out, s.ended(Aborted).gone(0))
		}
		if s.fate&rollsBack != 0 {
			next := s
			next.life, next.fate = rolling, rollsBack
			out = append(out, next.futures()...)
		}
	case rolling:
		out = append(out, s.ended(RolledBack).gone(s.members))
	case present:
		if s.change == 0 {
			break
		}
		if s.fate&succeeds != 0 {
			out = append(out, s.changed(s.changeMembers, s.changeDefinition))
		}
		if s.fate&aborts != 0 {
			next := s.settled()
			next.exact = false
			out = append(out, next)
		}
	}
	return out
}

// settled takes the waiting change away.
func (s state) settled() state {
	s.change, s.changeDefinition, s.changeMembers, s.fate = 0, 0, 0, 0
	return s
}

// changed is the next generation.
func (s state) changed(members Places, definition int) state {
	s = s.settled()
	removed := s.members &^ members
	s.held |= removed
	s.bumps += removed.count()
	s.members = members
	if definition != 0 {
		s.definition = definition
	}
	s.generation++
	s.exact = false
	return s
}

// at demands that the federation's record is at a revision, or may be.
func (s state) at(revision int64) (state, bool) {
	switch {
	case revision == s.revision && s.exact:
		return s, true
	case revision <= s.revision:
		return s, false
	case s.exact:
		if s.bumps == 0 {
			return s, false
		}
		s.bumps--
	}
	s.revision, s.exact = revision, true
	return s, true
}
