// Package seal owns age: identities, and envelopes that only their recipients can open.
//
// An envelope says inside what it is for: purpose, cluster, the uid of one life of a replica, its
// generation and an expiry. A caller that opens it names what it expects, so that an envelope
// cannot be moved to another record, replayed into a later generation, or used after its time. It
// does not say who sealed it: anyone can seal to a recipient that he knows.
//
// Envelopes are age files. A key agreement for each costs more than everything else about it, so
// that a Sealer, which seals many, has shares of its own in them.
package seal
