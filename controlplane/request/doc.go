// Package request keeps what is known of requests: the idempotency records that let a
// repeated request have the outcome of the first, the audit, and how much each account has
// in etcd.
package request
