// Package relay owns the streams of a syncer to the instances of the control plane, and
// what may be asked on them.
//
// The syncer dials out: one HTTPS connection to each instance, which it upgrades, and on
// which from then on it answers requests (HTTP/2, parts exchanged). It does
// not know how many instances are behind one address; it asks again now and then, and keeps
// a stream to each one that answers.
//
// What is not on the list is refused here, whatever the control plane asks for: the
// streams lead to some requests about services that stand here as the federation's, to
// what a user is told by OSCAR of his own keys, and to nothing else of the site.
//
//	GET    /services/{service}/{uid}/jobs?page=
//	DELETE /services/{service}/{uid}/jobs?all=
//	GET    /services/{service}/{uid}/jobs/{job}?timestamps=
//	DELETE /services/{service}/{uid}/jobs/{job}
//	POST   /services/{service}/{uid}/run
//	GET    /config
//
// The last one is passed on with the access token of a user and never with the cluster's
// credentials, and only his own keys of MinIO come back.
package relay
