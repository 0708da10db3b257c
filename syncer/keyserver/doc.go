// Package keyserver owns the server that gives the OSCAR beside a syncer the keys of an
// origin's MinIO: with them a job reads and writes the storage of its federation's origin.
//
//	OSCAR ── GET /system/config, Authorization of the POST of the job ──> syncer
//	      <── the owner's keys at the origin's MinIO ──
//
// An OSCAR sends this request by itself when it is posted a job of a service that names
// another MinIO than its own; it takes the syncer for the origin's OSCAR. The server answers
// nothing else. A caller without a token that the syncer knows gets 401 and learns nothing.
//
// A NetworkPolicy must restrict the port to the OSCAR: the server restricts no addresses.
// The traffic is not encrypted, as between the OSCAR and its MinIO.
package keyserver
