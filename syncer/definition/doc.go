// Package definition owns one generation of a service as this cluster's OSCAR is sent it: the
// spec of the desired record joined with what is sealed to the cluster, the bodies of the
// requests that are made of it, and the comparison with what OSCAR shows afterwards.
//
// It decides nothing and calls no OSCAR. Fields that the project does not know pass through
// it untouched.
package definition
