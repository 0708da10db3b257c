// Command bench measures a federation and prints its figures as the tables that
// docs/performance.md holds. Nothing in it passes or fails by a time: each figure
// stands beside a floor, the same work done by bare etcd clients, that was measured
// in turns with it. What may be counted is asserted: revisions.
//
// Three kinds of processes take part, so that the one that measures does not wait for
// those that work: oscar-controlplane with its embedded etcd, as it is shipped; a fleet
// (this program again), which holds real syncers over simulated OSCARs and the
// bare clients; and the driver, which sends requests and watches etcd.
//
//	bench [-run REGEXP] [-size 1.0] [-quiet 5m] [-profile DIR]
//
// Tables go to standard output, progress to standard error.
package main
