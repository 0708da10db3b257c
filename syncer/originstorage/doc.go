// Package originstorage owns how jobs of this cluster use the storage of a federation's origin,
// which is the MinIO of another cluster.
//
// Keys gets the owners' keys of such a MinIO with the owners' access tokens, keeps them in
// memory alone, and gives them to the OSCAR beside the syncer (package keyserver). Watch looks
// from time to time whether that storage can be used, and reports what it finds.
package originstorage
