package share

// Idle says whether no slot is taken.
func (s *Slots) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.Total() == 0 && len(s.waiting) == 0
}
