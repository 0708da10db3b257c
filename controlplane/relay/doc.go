// Package relay owns the streams on which this instance of the control plane asks
// clusters something: one for each, dialled by its syncer, HTTP/2 with the parts exchanged.
//
// A syncer dials out only, so a cluster behind NAT is reached by nothing else. Who a
// stream belongs to was proven before it came here. What may be asked is not decided
// here but at the other end, by the syncer.
//
//	syncer ──────── HTTPS, Upgrade ────────> API of this instance
//	syncer <── requests ── one connection ── Hub.Do
//
// A stream is lost with its connection, and nothing is remembered of it. Of two
// streams of a cluster the newer one counts: its syncer knows better which is alive.
package relay
