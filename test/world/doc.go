// Package world owns whole federations for tests: etcd, control planes
// with their API, and simulated OSCARs with a real syncer each, in one process. It
// stands a canary on every cluster, and at the end of each test it checks the
// canaries and replays every revision of the store against the promises.
//
// A world has no time and no network of its own: it is given a clock, a network of package
// wire and the etcd that it works over (Options.Now, Options.Wire, Options.Endpoints), and all
// that it starts ends with its context. Over a wire all of it runs in virtual time, etcd
// included. The parts that need no federation, a [Site], its [Task] and the [Link] of its
// connections, need no test either.
package world
