// Package relay owns the streams on which this instance of the control plane asks
// clusters something: one for each, dialled by its syncer, HTTP/2 with the parts exchanged.
//
// A syncer dials out only, so a cluster behind NAT is reached by nothing else. The
// cluster of a stream was proven before the stream came here. The syncer at the other end
// decides what may be asked.
//
//	syncer ──────── HTTPS, Upgrade ────────> API of this instance
//	syncer <── requests ── one connection ── Hub.Do
//
// A stream is lost with its connection, and nothing is remembered of it. Of two
// streams of a cluster the newer one counts: its syncer knows better which is alive.
package relay
