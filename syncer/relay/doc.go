// Package relay owns the streams of a syncer to the instances of the control plane, and
// what may be asked on them.
//
// The syncer dials one HTTPS connection to each instance, upgrades it, and then answers
// requests on it (HTTP/2 with the roles exchanged). It does not know how many instances are
// behind one address, so it asks again from time to time and keeps a stream to each instance
// that answers.
//
// The syncer refuses every request that is not on this list. The list has requests about
// services of the federation on this cluster, those of a user, and votes:
//
//	GET    /services/{service}/{uid}/jobs?page=
//	DELETE /services/{service}/{uid}/jobs?all=
//	GET    /services/{service}/{uid}/jobs/{job}?timestamps=
//	DELETE /services/{service}/{uid}/jobs/{job}
//	POST   /services/{service}/{uid}/run
//	POST   /services/{service}/{uid}/restart
//	GET    /config
//	POST   /votes/{service}
//	*      /user/..., /admin/...
//
// GET /config is sent to OSCAR with the access token of a user, never with the cluster's
// credentials, and only the user's own keys of MinIO are returned. Below /user are OSCAR's own
// paths of buckets, volumes, quotas and usage (v1.ForwardRoutes), which go to OSCAR with the
// user's token alone. Below /admin are the same with the cluster's credentials; a syncer
// refuses them unless it runs with --relay-admin.
package relay
