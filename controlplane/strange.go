package controlplane

import (
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// newerVersion is the answer where a record has a word that this version does not know:
// whatever it did would be done to something else than it takes it for.
func newerVersion(what, word string) error {
	return &Error{Code: CodeUnavailable, RetryAfter: time.Minute, Message: strangeMessage(what, word)}
}

func strangeMessage(what, word string) string {
	return fmt.Sprintf("the record of %s has the %s: a newer version of the control plane wrote it, and this one leaves it as it is; "+
		"ask an instance of that version, or bring this one to it", what, word)
}

// strange names a word of a newer version in a federation, or in what is desired of its
// replicas; empty when all are known. What syncers report is not looked at: a word that
// is not known there counts like silence.
func (s *situation) strange() string {
	if word := record.Strange(&s.fed); word != "" {
		return word
	}
	for _, r := range slices.Concat(s.replicas, s.adding, s.leaving) {
		if word := record.Strange(r.desired); word != "" {
			return word + " on " + r.at.ClusterID
		}
	}
	return ""
}

// understood refuses to change a federation that a newer version has written.
func (s *situation) understood() error {
	if word := s.strange(); word != "" {
		return newerVersion(fmt.Sprintf("federation %q", s.fed.GroupID), word)
	}
	return nil
}

// showStrange tells, in the view of a federation, why nothing happens to it.
func (p *presented) showStrange(word string) {
	p.Phase = record.PhaseDegraded
	for _, members := range [][]Replica{p.Members, p.Leaving} {
		for _, m := range members {
			if m.Status != nil {
				m.Status.Reason, m.Status.Message = record.ReasonNewerVersion, strangeMessage(fmt.Sprintf("federation %q", p.GroupID), word)
			}
		}
	}
}
