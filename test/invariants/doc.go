// Package invariants owns the checker of the promises that hold at every
// revision of the store. It reads a real watch of everything below record.Root
// from revision 1 on, keeps the whole state after each revision, and looks for
// what may never be: not at the end of a run, but at any moment of it.
//
// A test starts etcd without compaction, calls [Guard] and then does whatever it
// does; at its end every revision that it caused is checked:
//
//	endpoint := storetest.Etcd(t)
//	invariants.Guard(t, endpoint, invariants.Options{Secrets: []string{canary}})
//
// The rules are the promises as far as the store shows them: what one revision
// changed is judged by its events with the values before and after, and each
// federation that it concerns is judged as it then stands. A rule is written from
// the design alone. None of them calls the code that it judges; even the edges
// of a topology are computed again.
//
// What the store cannot show stands on the clusters: [PlantCanaries] puts strangers
// there, and checks at the end that they were not touched.
package invariants
