// Command oscarpod is the simulated OSCAR for a pod: it keeps services, Secrets and Jobs in the Kubernetes that it runs
// on, with the pod's service account, so that Jobs are run by its nodes. The chart of the syncer is tried beside it.
//
//	oscarpod -id oscar-cluster-a -services oscar-svc-a -password-file /etc/oscar/password [-free MILLICORES]
//
// It differs from an OSCAR in that a Job runs its image's own entry point, which reads EVENT: there is no supervisor, and
// no storage. Volumes, namespaces of users and exposed services are not made in Kubernetes.
package main
