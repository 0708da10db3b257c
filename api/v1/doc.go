// Package v1 owns the wire form of the answers that are ours and not OSCAR's:
// federations, replicas, clusters, information and problems. The order of the
// fields is part of the contract. It imports nothing of the project.
package v1
