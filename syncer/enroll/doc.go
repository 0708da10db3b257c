// Package enroll owns how a syncer gets and keeps its certificate for etcd.
//
// The key is made here and never leaves. The syncer joins once, with a token that the
// administrator was given, and gets a certificate of 24 hours, etcd's authorities and
// its endpoints. From then on the key itself is the proof: after two thirds of its
// life the certificate is renewed, also when it ended while the machine was off.
//
//	            token                    2/3 of its life
//	no key ──> key ──> join ──> certificate ─────────> renewal
//	                    │ ^          ^                   │ │
//	         no answer: │ │          └───────────────────┘ │
//	         the same   └─┘                    no answer:  │
//	         request again        the present one goes on  │
//	                                                       v
//	                    refused: another token is waited for
//
// What stands in the directory is the key (client.key) and, in one file, all that an
// answer told (enrolment.json). The key is written before it is used, the answer after it
// was checked; a start that finds only the key repeats the join, which with the same
// key and the same token has the same outcome.
//
// Clocks may disagree. When a certificate is to be renewed is counted by this machine
// from when it came; what proves a renewal is a challenge of the other side.
package enroll
