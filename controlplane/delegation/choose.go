package delegation

import (
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Choose says where the job of a snapshot goes. It never fails: a policy that is
// unknown is static, what is negative is nothing, and when no member can take the job
// Chosen is empty and the verdicts say why.
func Choose(s Snapshot) Decision {
	entrants := s.judged()
	var fit []*entrant
	for _, e := range entrants {
		if e.why == "" {
			fit = append(fit, e)
		}
	}
	policy := s.policy()
	switch policy {
	case oscar.DelegationRandom:
		s.orderRandom(fit)
	case oscar.DelegationLoadBased:
		s.orderLoad(fit)
	case oscar.DelegationTopsis:
		s.orderTopsis(fit)
	default:
		s.orderStatic(fit)
	}
	slices.SortStableFunc(fit, func(a, b *entrant) int { return int(bit(a.last)) - int(bit(b.last)) })

	d := Decision{Policy: policy, Order: []string{}, Verdicts: []Verdict{}}
	for i, e := range fit {
		d.Order = append(d.Order, e.place)
		e.why, e.message = WhyOutranked, fmt.Sprintf("%s: %s; %s came first", policy, e.told(policy), fit[0].place)
		if i == 0 {
			d.Chosen, e.why, e.message = e.place, WhyChosen, fmt.Sprintf("%s: %s", policy, e.told(policy))
		}
	}
	for _, e := range entrants {
		d.Verdicts = append(d.Verdicts, Verdict{Place: e.place, Why: e.why, Message: e.message, Score: e.score})
	}
	return d
}

// judged are the candidates in their order.
func (s *Snapshot) judged() []*entrant {
	var from *Candidate
	for i := range s.Candidates {
		if s.From != "" && s.Candidates[i].Place() == s.From {
			from = &s.Candidates[i]
			break
		}
	}
	entrants := make([]*entrant, len(s.Candidates))
	for i := range s.Candidates {
		entrants[i] = s.judge(&s.Candidates[i], from)
	}
	return entrants
}

// Compact is the same question with only as much of the capacities as the answer
// needs: Choose gives the same for both. It is the form to be stored, some 200 bytes
// for each candidate however many nodes it has.
func (s Snapshot) Compact() Snapshot {
	out := s
	out.Candidates = slices.Clone(s.Candidates)
	for i, e := range s.judged() {
		c := &out.Candidates[i]
		c.Promised, c.Capacity = nil, Capacity{}
		if c.endpoint() || e.why != "" && e.why != WhyNoRoom && e.why != WhyNoGPU {
			continue // the capacity was not looked at
		}
		c.Capacity = Capacity{More: e.room.sum, Taken: e.room.taken}
		if e.room.fits {
			// One node with the room that was found, and the others in one sum.
			c.Capacity.Nodes = []Request{s.Request.Floor()}
			c.Capacity.More.Request = c.Capacity.More.minus(s.Request.Floor(), 1)
			c.Capacity.More.Nodes--
		}
	}
	return out
}

// policy is the one that is followed.
func (s *Snapshot) policy() string {
	switch s.Policy {
	case oscar.DelegationRandom, oscar.DelegationLoadBased, oscar.DelegationTopsis:
		return s.Policy
	}
	return oscar.DelegationStatic
}

// told is the score in words.
func (e *entrant) told(policy string) string {
	switch {
	case e.score == nil:
		return "its capacity is not known, so it stands behind the others"
	case policy == oscar.DelegationRandom:
		return fmt.Sprintf("weight %g", *e.score)
	case policy == oscar.DelegationLoadBased:
		return fmt.Sprintf("score %g with cpu %dm free", *e.score, e.room.sum.CPU)
	case policy == oscar.DelegationTopsis:
		return fmt.Sprintf("closeness %.3f", *e.score)
	}
	return fmt.Sprintf("priority %g", *e.score)
}

func bit(b bool) int8 {
	if b {
		return 1
	}
	return 0
}
