package history

// Shrink leaves steps out of a plan for as long as it fails without them: first halves, then
// smaller parts (delta debugging, Zeller and Hildebrandt 2002). fails plays a plan, and is called
// at most so many times.
func Shrink(p Plan, tries int, fails func(Plan) bool) Plan {
	for part := (len(p.Steps) + 1) / 2; part >= 1 && tries > 0; {
		smaller := false
		for from := 0; from < len(p.Steps) && tries > 0; {
			without := p
			without.Steps = append(append([]Step{}, p.Steps[:from]...), p.Steps[min(from+part, len(p.Steps)):]...)
			tries--
			if fails(without) {
				p, smaller = without, true
			} else {
				from += part
			}
		}
		switch {
		case part > 1:
			part /= 2
		case !smaller:
			return p
		}
	}
	return p
}
