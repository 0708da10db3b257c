package linear

import (
	"slices"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// Model is a federation as the API shows it, for histories of one service name.
// See state for what is remembered of it.
func Model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, out any) []any {
			var next []any
			for _, t := range step(s.(state), in.(Input), out.(Output)) {
				next = append(next, t)
			}
			return next
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(in, out any) string { return Describe(in.(Input), out.(Output)) },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return m.ToModel()
}

// step gives every state that an operation with this end may leave behind; none
// when it cannot have ended so.
func step(s state, in Input, out Output) []state {
	var next []state
	for _, f := range s.futures() {
		for _, t := range apply(f, in, out) {
			if !slices.Contains(next, t) {
				next = append(next, t)
			}
		}
	}
	return next
}

func apply(s state, in Input, out Output) []state {
	switch out.Answer {
	case Strange:
		return nil
	case Nothing:
		return []state{s}
	case Unknown:
		return append(effects(s, in, anyhow), s)
	}
	switch in.Kind {
	case Create:
		return created(s, in, out.Answer)
	case Delete:
		return deleted(s, out.Answer)
	case Change, Add, Remove:
		return change(s, in, out.Answer)
	case Get:
		return seen(s, in, out)
	case GetService:
		return shown(s, out)
	case settled:
		return over(s, in)
	}
	return nil
}

// effects are the states after an operation that takes effect.
func effects(s state, in Input, f fate) []state {
	switch in.Kind {
	case Create:
		return accepted(s, in, f)
	case Delete:
		return deleted(s, OK)
	case Change, Add, Remove:
		return changing(s, in, f)
	}
	return nil
}

// created judges a creation that was answered.
func created(s state, in Input, answer Answer) []state {
	if in.Keyed {
		if how, found := s.asked(in.ID); found {
			return repeated(s, in, answer, how)
		}
	}
	switch answer {
	case OK:
		return accepted(s, in, succeeds)
	case Aborted:
		return accepted(s, in, aborts)
	case RolledBack:
		return accepted(s, in, rollsBack)
	case Gone:
		return accepted(s, in, succeeds|aborts|rollsBack)
	case Exists:
		if s.life != absent || s.held&(in.Places|coordinator) != 0 {
			return []state{s}
		}
	case Conflict:
		if s.life == creating || s.life == rolling {
			return []state{s}
		}
	}
	return nil
}

// repeated judges a creation that was accepted before under the same key: it has
// no other effect than the first time, and no other outcome.
func repeated(s state, in Input, answer, how Answer) []state {
	if how == Unknown { // it is under way: wait for the same outcome
		want, known := map[Answer]fate{OK: succeeds, Aborted: aborts, RolledBack: rollsBack, Gone: anyhow}[answer]
		if !known || s.by != in.ID {
			return nil
		}
		if s.life == rolling && want&rollsBack != 0 {
			return []state{s}
		}
		if s.fate &= want; s.fate == 0 {
			return nil
		}
		return []state{s}
	}
	if answer == how || answer == Gone {
		return []state{s}
	}
	return nil
}

// accepted is transaction A of a creation.
func accepted(s state, in Input, f fate) []state {
	if s.life != absent {
		return nil
	}
	if in.Keyed {
		if _, found := s.asked(in.ID); found {
			return nil
		}
		s.done += " #" + strconv.Itoa(in.ID) + ":?"
	}
	members := in.Places | coordinator
	return []state{{
		life: creating, by: in.ID, definition: in.ID, members: members, generation: 1,
		revision: s.revision, fate: f &^ drops, held: s.held &^ members, failed: s.failed, done: s.done,
	}}
}

// deleted judges a deletion that was answered.
func deleted(s state, answer Answer) []state {
	switch {
	case answer == NotFound && s.life == absent:
		return []state{s}
	case answer == OK && s.life == absent && s.failed: // the kept result is forgotten
		return []state{s}
	case answer == Conflict && s.life == absent && s.failed && s.held != 0: // it waits for a tombstone
		return []state{s}
	case answer != OK:
		return nil
	}
	switch s.life {
	case creating: // it is made to fail
		var out []state
		if s.fate&aborts != 0 {
			out = append(out, s.ended(Aborted).gone(0))
		}
		if s.fate&rollsBack != 0 {
			s.life, s.fate = rolling, rollsBack
			out = append(out, s)
		}
		return out
	case rolling:
		return []state{s}
	case present:
		if s.change != 0 && s.fate&drops == 0 {
			return nil // it was told how its change ended, so it was not dropped
		}
		return []state{s.gone(s.members)}
	}
	return nil
}

// wanted is what a change makes of the members, and of the definition.
func wanted(s state, in Input) (members Places, definition int) {
	switch in.Kind {
	case Add:
		return s.members | in.Places, 0
	case Remove:
		return s.members &^ (in.Places &^ coordinator), 0
	}
	return in.Places | coordinator, in.ID
}

// change judges a change that was answered.
func change(s state, in Input, answer Answer) []state {
	switch answer {
	case NotFound:
		if s.life == absent {
			return []state{s}
		}
	case Conflict:
		// What is absent is at no revision: a change that met a deletion may be told that
		// its revision is gone, or that everything is.
		if s.life == creating || s.life == rolling || s.life == present && elsewhere(s, in.IfMatch) || s.life == absent && in.IfMatch != 0 {
			return []state{s}
		}
	case Exists:
		next, ok := changeable(s, in)
		members, _ := wanted(s, in)
		if ok && members&^s.members&s.held != 0 {
			return []state{next}
		}
	case OK:
		return changing(s, in, succeeds)
	case Aborted:
		members, _ := wanted(s, in)
		if members&^s.members != 0 { // a change that adds no member needs no votes
			return changing(s, in, aborts)
		}
	case Gone:
		return changing(s, in, anyhow)
	}
	return nil
}

// elsewhere says whether the record may be at another revision than the one that
// a change is bound to.
func elsewhere(s state, revision int64) bool {
	return revision != 0 && (!s.exact || revision != s.revision || s.bumps > 0)
}

// changeable says whether a change may be begun.
func changeable(s state, in Input) (state, bool) {
	if s.life != present || s.change != 0 {
		return s, false
	}
	if in.IfMatch == 0 {
		return s, true
	}
	return s.at(in.IfMatch)
}

// changing begins a change: it waits for votes, or is done, or needless.
func changing(s state, in Input, f fate) []state {
	s, ok := changeable(s, in)
	if !ok {
		return nil
	}
	members, definition := wanted(s, in)
	added := members &^ s.members
	switch {
	case members == s.members && definition == 0:
		return []state{s}
	case added == 0:
		return []state{s.changed(members, definition)}
	}
	s.held &^= added
	s.change, s.changeDefinition, s.changeMembers, s.fate, s.exact = in.ID, definition, members, f, false
	return []state{s}
}

// seen judges a view of the replicas.
func seen(s state, in Input, out Output) []state {
	v := out.View
	at := in.Places
	if at == 0 {
		at = coordinator
	}
	nobody := out.Answer == NotFound || v.Phase == "aborted" || v.Phase == "rolled_back"
	switch {
	case nobody:
		if s.life == absent || !s.members.has(at) {
			return []state{s}
		}
		return nil
	case s.life == absent || !s.members.has(at) || v.Members != s.members || v.Generation != s.generation:
		return nil
	case s.uid != "" && s.uid != v.UID:
		return nil
	}
	s.uid = v.UID
	ok := false
	switch v.Phase {
	case "preparing", "applying":
		ok = s.life == creating && v.Revision >= s.revision
		s.revision = v.Revision
	case "rolling_back":
		ok = s.life == rolling && v.Revision >= s.revision
		s.revision = v.Revision
	case "changing":
		if s.life == present {
			s, ok = s.at(v.Revision)
		}
	case "ready", "degraded":
		if s.life == present && s.change == 0 {
			s, ok = s.at(v.Revision)
		}
	}
	if !ok {
		return nil
	}
	return []state{s}
}

// shown judges a definition that was read.
func shown(s state, out Output) []state {
	switch {
	case out.Answer == NotFound && s.life == absent,
		out.Answer == OK && s.life != absent && out.View.Definition == s.definition && out.View.Members == s.members:
		return []state{s}
	}
	return nil
}

// over demands that nothing of an answered operation is under way any more.
func over(s state, in Input) []state {
	if s.change == in.ID || s.life == creating && s.by == in.ID {
		return nil
	}
	return []state{s}
}
