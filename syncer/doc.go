// Package syncer owns one OSCAR cluster on behalf of the federation: it reads
// what is desired of the cluster, makes its OSCAR Manager so, and reports what
// it saw. It runs beside that OSCAR and dials out only.
//
// # Parts
//
// This package only wires: Config, New, Run, and which part is told of which change. The
// parts are services (making what is desired), jobs, offers and status; they share a session,
// the answers of OSCAR, the definitions of services, and the tokens and storage of their
// owners, each in a package of its own. Imports run from the parts to what they share.
//
// # How it works
//
// A mirror of c/<cluster>/ in etcd tells which services to look at; a work
// queue holds their names. For each name the newest desired record, the service
// as ONE list of OSCAR shows it and our own last report are put into a pure
// function, plan, which names the next step. Steps that write to OSCAR go to a
// second queue, which one worker empties in order of urgency, since creates and
// deletes of one OSCAR break each other. Votes are never behind that queue.
//
// A step is one write. After it everything is read again and planned again, so
// that nothing is concluded from the status of an answer: OSCAR answers 500
// after the work, or never, and finishes work whose caller has gone.
//
// # What it never does
//
// It does not take absence for an order: a service is deleted for a tombstone
// that was read, which names the service's uid and a generation not older. It
// touches no service that does not carry the token of the desired life, no
// bucket that this or an earlier life of the owner did not make, no running
// job, and deletes no bucket unless the owner ordered that. Without a session
// in etcd it writes nothing at all.
package syncer
