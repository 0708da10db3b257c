// Package kubekeys makes the keys, certificates and tokens that a Kubernetes of tests is started with.
package kubekeys
