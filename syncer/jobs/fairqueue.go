package jobs

// fairQueue are attempts that wait for a slot: each federation gets one after the other, and within one the
// first that came is first.
type fairQueue struct {
	order []tenant
	of    map[tenant][]string
}

// tenant names a federation, and the owner of its services.
type tenant struct{ owner, federation string }

// add puts an attempt behind the others of its federation.
func (q *fairQueue) add(t tenant, key string) {
	if q.of == nil {
		q.of = map[tenant][]string{}
	}
	if len(q.of[t]) == 0 {
		q.order = append(q.order, t)
	}
	q.of[t] = append(q.of[t], key)
}

// next takes the first attempt of the next federation whose owner may have a slot; false
// when there is none.
func (q *fairQueue) next(may func(owner string) bool) (key string, ok bool) {
	for i, t := range q.order {
		if !may(t.owner) {
			continue
		}
		q.order = append(q.order[:i:i], q.order[i+1:]...)
		keys := q.of[t]
		if len(keys) > 1 {
			q.of[t], q.order = keys[1:], append(q.order, t)
		} else {
			delete(q.of, t)
		}
		return keys[0], true
	}
	return "", false
}

// slots counts slots that are taken, by owners.
type slots struct {
	taken int
	of    map[string]int
}

func (s *slots) add(owner string, n int) {
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.taken += n
	if s.of[owner] += n; s.of[owner] == 0 {
		delete(s.of, owner)
	}
}

// may says whether an owner may have one more of so many slots: only while he has fewer than
// are free. What takes a slot may hold it for minutes, so that room for others is kept free:
// see share.Slots, where it is the same.
func (s *slots) may(owner string, slots int) bool { return s.of[owner] < slots-s.taken }
