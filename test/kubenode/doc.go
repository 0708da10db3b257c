// Command kubenode is a real Kubernetes of one node: kubelet, containerd and runc, kube-proxy, the
// scheduler, the controllers and the API server over an embedded etcd. It runs in namespaces and
// cgroup folders of its own, and its files are below one folder.
//
//	kubenode                  starts a node, runs a pod on it, and ends it
//	kubenode COMMAND...       runs a command in the node's namespaces, with KUBECONFIG, once it is Ready
//
// The program starts itself anew as the first process of the namespaces (inside.go). When that
// process ends, the kernel ends all others and unmounts everything; outside.go then removes the
// cgroup folders and the files, and fails when something is left.
//
// It needs root, cgroup v1, the programs of `make kube` and `make kube-node`, and from Debian
// containerd, runc, containernetworking-plugins, iptables and conntrack. With E2E_KUBE=auto a
// machine that does not allow namespaces or mounts of cgroups is no failure: the last line is
// SKIPPED and the reason.
package main
