// Package kubetest owns real Kubernetes API servers for tests: kube-apiserver, and the
// controller manager when it is asked for, over an etcd of their own, on free ports, in
// a temporary folder. There are no nodes: pods are accepted and never run. Everything
// that it starts ends with the test process, however that ends.
//
// The two programs are built once by `make kube`, on which `make test` depends.
//
// A package has one cluster for all its tests, which is started by the first that
// asks for it:
//
//	var shared kubetest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
//	func TestIt(t *testing.T) {
//		cluster := shared.Cluster(t)
//		namespace := cluster.Namespace(t, "oscar-svc-1")
package kubetest
