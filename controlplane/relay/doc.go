// Package relay owns the streams on which this instance of the control plane sends requests
// to syncers: one stream for each cluster. The syncer dials it, and the control plane is the
// client on it (HTTP/2 with the roles exchanged).
//
// A cluster may be behind NAT, so there is no other way to it. The caller of Serve has
// verified which cluster a stream belongs to. The syncer at the other end decides which
// requests it accepts.
//
//	syncer ──────── HTTPS, Upgrade ────────> API of this instance
//	syncer <── requests ── one connection ── Hub
//
// A stream ends with its connection and leaves no state. A newer stream of a cluster replaces
// the older one: the syncer opens another one only when it has lost the first.
package relay
