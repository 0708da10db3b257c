// Package oscarsim owns an OSCAR Manager v4.1.2 in one process: its REST API over a simulated Kubernetes and MinIO,
// for `oscarfed dev` and for tests. It answers as a real one was seen to answer, oddities included: a 500 after the
// work was done, a service that is listed before its buckets exist, a DELETE that empties every bucket the definition
// names, also one that others made.
//
// It is written from observed facts and from the upstream's source, not from this project's client, and imports
// nothing of this project, so that the two readings check each other. The contract suite in the folder contract holds
// the facts, one case each, and runs against this simulator and against a real OSCAR.
//
// New starts nothing. The simulator dials out for one thing only, to ask a worker's origin for the keys of its MinIO;
// to everything else that it does every other cluster refuses connections. State lives in
// the Sim and survives Serve, so an OSCAR can be stopped in the middle of a create and served again, with what the
// kill left behind. Faults (see Fault) make it misbehave at run time. What another process may see and do is under
// /_sim/ (see control.go), with the same Basic credentials.
//
// Its MinIO takes no connections, but for the health check when a test gives it an address (Config.MinIO), and for
// presigned links where a test serves Sim.Objects there.
//
// Left out: Kueue, Knative (but for Config.Function), KServe, what quotas and metrics measure, lines in the logs of the
// Manager and of deployments, changes through /system/federation, the dashboard. Jobs do not run by themselves: they
// stay Pending until a test or /_sim/ says otherwise, unless there is a real Kubernetes below (Config.Kubernetes).
package oscarsim
