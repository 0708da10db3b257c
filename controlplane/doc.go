// Package controlplane owns the use cases of a federation: create, delete, look
// at, and the clusters it stands on. It decides with pure functions, remembers
// with package store, and never talks to an OSCAR: that is the syncers' part.
//
// An instance has no state of its own but its key. A use case validates, writes
// one transaction and waits for the outcome; the deciders of all instances, this
// one included, take the next step of every federation by compare-and-swap on its
// record, without a leader. Killing an instance at any point leaves the step to
// another one, or to itself when it is back.
//
// The life of a creation (stored phases):
//
//	            A                 all votes yes: B               all ready
//	POST ---> preparing ------------------------> applying ------------------> ready
//	              |                                  |
//	              | a no, or the prepare deadline    | a failure, or the apply deadline
//	              v                                  v
//	           aborted                         rolling_back ---------------> rolled_back
//	      (nothing was made)              (tombstones, by uid)   acknowledged
//
// aborted and rolled_back are results: kept for a day, they do not hold the name.
// A deletion turns ready into deleting, and removes the records once the
// tombstones are acknowledged.
//
// A change leaves a federation ready: one transaction gives all of it the next
// generation. When it adds members they vote first, while the change waits in the
// federation's record.
package controlplane
