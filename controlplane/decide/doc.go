// Package decide is pure: it says what the next step of a federation is, and of a cluster
// that is being removed. The same situation gives the same decision on every instance. It
// reads no clock and writes nothing.
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
package decide
