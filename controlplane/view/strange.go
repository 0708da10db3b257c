package view

import (
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

// Strange names a word of a newer version in a federation, or in what is desired of its
// replicas; empty when all are known. What syncers report is not looked at: a word that
// is not known there counts like silence.
func (s *Situation) Strange() string {
	if word := record.Strange(&s.Fed); word != "" {
		return word
	}
	for _, r := range slices.Concat(s.Replicas, s.Adding, s.Leaving) {
		if word := record.Strange(r.Desired); word != "" {
			return word + " on " + r.At.ClusterID
		}
	}
	return ""
}

// Understood refuses to change a federation that a newer version has written.
func (s *Situation) Understood() error {
	if word := s.Strange(); word != "" {
		return fault.NewerVersion(fmt.Sprintf("federation %q", s.Fed.GroupID), word)
	}
	return nil
}

// showStrange tells, in the view of a federation, why nothing happens to it.
func (p *Shown) showStrange(word string) {
	p.Phase = record.PhaseDegraded
	for _, members := range [][]Replica{p.Members, p.Leaving} {
		for _, m := range members {
			if m.Status != nil {
				m.Status.Reason, m.Status.Message = record.ReasonNewerVersion, fault.StrangeMessage(fmt.Sprintf("federation %q", p.GroupID), word)
			}
		}
	}
}
