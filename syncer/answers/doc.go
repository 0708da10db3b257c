// Package answers owns what the local OSCAR and the Kubernetes below it have answered last:
// lists, nodes and versions that many decisions share, and whether OSCAR answers at all.
//
// A caller says how old an answer may be; callers that cannot use the present one wait
// together for the next. Package answers concludes nothing about any service.
package answers
