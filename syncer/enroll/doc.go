// Package enroll owns how a syncer gets and keeps its certificate for etcd.
//
// The syncer makes the key, which never leaves the machine. It joins once, with a token from the
// administrator, and gets a certificate (24 hours, or --cluster-certificate-life), etcd's authorities and its endpoints.
// Later the key alone proves which cluster it is: the syncer renews the certificate after two
// thirds of its life, also when it expired while the machine was off.
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
// The directory holds the key (client.key) and the last answer (enrolment.json). The key is
// written before it is used, the answer after it was checked. A process that finds only the
// key at its start repeats the join: with the same key and token it has the same outcome.
//
// A token that was not used yet is joined with at the next start. A valid certificate does not wait
// for that: while the control plane is away it goes on, and the join is tried beside it.
//
// Clocks may disagree. The syncer counts the age of a certificate from when it received it, and
// proves a renewal by a challenge of the control plane.
package enroll
