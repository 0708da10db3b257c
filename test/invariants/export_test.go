package invariants

// Everything makes a check look at all federations at each revision.
func (o Options) Everything() Options {
	o.everything = true
	return o
}
