// Package keyserver owns what the OSCAR beside a syncer may ask of it: with which keys a job
// reads and writes the storage of the cluster that its federation began on.
//
//	OSCAR ── GET /system/config, Authorization of the POST of the job ──> syncer
//	      <── the owner's keys at the origin's MinIO ──
//
// An OSCAR asks so by itself, of what it takes for the origin's OSCAR, when it is posted
// a job of a service that names another MinIO than its own. Nothing else is answered.
// A caller without a token that the syncer knows does not learn that there is anything.
//
// A NetworkPolicy must keep the port to the OSCAR: connections are not restricted here.
// What goes over it is not encrypted, as between the OSCAR and its MinIO.
package keyserver
