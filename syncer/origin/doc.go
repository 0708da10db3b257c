// Package origin owns what a syncer asks of another cluster so that jobs here can use
// that cluster's MinIO: the keys that the owner of a service has there, and whether the
// MinIO answers from here.
//
// The keys come from the other OSCAR's GET /system/config, which answers a user with
// his own. The request carries only an access token of that user: an administrator would
// get MinIO's root keys. Where the other OSCAR cannot be reached directly, the control plane
// asks it through that cluster's syncer.
//
// An answer is taken for what it claims only when the access key is the owner's subject
// and the MinIO is the one that was asked about: an address may lead elsewhere from
// here than from where it was registered.
package origin
