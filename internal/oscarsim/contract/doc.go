// Package contract owns the facts about an OSCAR Manager v4.1.2 that this project builds on, one test case each, with
// the literal status and body that a real one was seen to answer. Run runs them over HTTP against any OSCAR
// with the administrator's Basic credentials: the simulator in every test run, a real one with
//
//	OSCAR_URL=https://oscar.example.org OSCAR_USER=oscar OSCAR_PASSWORD_FILE=pw \
//	    go test -tags realoscar -timeout 60m ./internal/oscarsim/contract/
//
// and with OSCAR_TOKEN_FILE, an access token of one of its users, also what users may do.
//
// A real one needs about six seconds for each create and delete, so that the whole takes about ten minutes; nothing
// else may create or delete services there meanwhile, since concurrent ones break each other. All names begin with
// the target's prefix, and what is left with that prefix is deleted at the end.
//
// In an expected body ".." stands for any text (Kubernetes' and MinIO's own words). A line feed at the end does not
// count. A case named [code] was read in the upstream's source and not observed.
//
// Left out, since REST cannot drive or see it:
//   - what needs a refresh token that works, or a member that can be reached;
//   - what needs kubectl: half-created services, ConfigMaps or PodTemplates deleted by hand, suspended Jobs, the values
//     of Secrets and of a Job's EVENT, pods;
//   - what needs S3: uploads, events, notifications and webhooks (a bucket's existence, folders and tags are seen by
//     /system/buckets);
//   - a hanging kube-apiserver or MinIO, a Manager killed in the middle, and the throttle of its Kubernetes client;
//   - what depends on timing: creates that break each other, what is visible during a create or delete.
package contract
