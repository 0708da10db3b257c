package wire

import (
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// Rule says what happens to what one host sends another. The zero value is a perfect
// network. Probabilities are from 0 to 1.
type Rule struct {
	// Delay is how long bytes take, and Jitter how much more at most, drawn for each
	// write. Bytes stay in order.
	Delay, Jitter time.Duration
	// Cut holds everything back, the ends of connections too, until the rule is removed;
	// then all of it arrives.
	Cut bool
	// Refuse is the probability that a dial is refused at once.
	Refuse float64
	// Drop is the probability that a dial is never answered.
	Drop float64
	// Break is the probability, for each write, that the connection ends before all of its
	// bytes arrive. The write succeeds, and both sides see a reset later.
	Break float64
	// Hang is the probability, for each write, that nothing of the connection arrives any more, in
	// either direction. Both sides see silence, and removing the rule changes nothing.
	Hang float64
	// Times limits how often in all the rule refuses, drops, breaks and hangs; 0 is no limit.
	Times int
}

// String names what is not zero.
func (r Rule) String() string {
	var out []string
	if r.Delay > 0 || r.Jitter > 0 {
		out = append(out, fmt.Sprintf("delay %v+%v", r.Delay, r.Jitter))
	}
	if r.Cut {
		out = append(out, "cut")
	}
	for _, p := range []struct {
		name        string
		probability float64
	}{{"refuse", r.Refuse}, {"drop", r.Drop}, {"break", r.Break}, {"hang", r.Hang}} {
		if p.probability > 0 {
			out = append(out, fmt.Sprintf("%s %v", p.name, p.probability))
		}
	}
	if r.Times > 0 {
		out = append(out, fmt.Sprintf("%d times", r.Times))
	}
	return strings.Join(out, ", ")
}

// rule is one that is in force.
type rule struct {
	Rule
	from, to string
	// left is how often it may still do harm, when Times limits it.
	left atomic.Int64
}

func (r *rule) matches(from, to string) bool {
	return matches(r.from, from) && matches(r.to, to)
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // AddRule checked the pattern
	return ok
}

// happens draws whether something of a probability happens, and counts it.
func (r *rule) happens(probability float64, d *dice) bool {
	return probability > 0 && d.float() < probability && (r.Times == 0 || r.left.Add(-1) >= 0)
}

// delays draws how long a write takes under several rules.
func delays(rules []*rule, d *dice) time.Duration {
	var out time.Duration
	for _, r := range rules {
		out += r.Delay
		if r.Jitter > 0 {
			out += time.Duration(d.float() * float64(r.Jitter))
		}
	}
	return out
}

func cuts(rules []*rule) bool {
	for _, r := range rules {
		if r.Cut {
			return true
		}
	}
	return false
}
