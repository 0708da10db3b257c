//go:build linux

package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"

	"github.com/oscarfed/oscarfed/test/kubekeys"
)

// kubeletClient is the user that the API server is for kubelet.
const kubeletClient = "kubelet-client"

// keys are what Kubernetes is started with.
type keys struct {
	*kubekeys.Keys

	clientCert, clientKey string
	admin, kubelet        kubekeys.User
}

// newKeys makes one certificate for the API server and kubelet, one that the API server shows to
// kubelet, and two users with tokens.
func newKeys(dir string) (*keys, error) {
	k := &keys{
		admin:   kubekeys.Administrator(),
		kubelet: kubekeys.User{Token: rand.Text(), Name: "system:node:" + nodeName, Group: "system:nodes"},
	}
	hosts := []string{"kubernetes.default.svc.cluster.local", "kubernetes.default.svc", "10.96.0.1", nodeName, nodeAddress, "127.0.0.1"}
	var err error
	if k.Keys, err = kubekeys.Make(dir, "kubenode", hosts, k.admin, k.kubelet); err != nil {
		return nil, err
	}
	k.clientCert, k.clientKey, err = k.Client(kubeletClient)
	return k, err
}

// Configurations; DIR is the node's folder.
const (
	kubeconfig = `{apiVersion: v1, kind: Config, current-context: node, contexts: [{name: node, context: {cluster: node, user: node}}],
  clusters: [{name: node, cluster: {server: "https://` + nodeAddress + `:6443", certificate-authority: DIR/ca.crt}}],
  users: [{name: node, user: {token: "TOKEN"}}]}
`
	// kubelet 1.36 runs on cgroup v1 only when it is told to. At 100 percent it removes no image, however
	// full the machine's disk is: the node has nowhere to pull one from again.
	kubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://` + socket + `
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: DIR/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: DIR/server.crt
tlsPrivateKeyFile: DIR/server.key
clusterDNS: [` + nodeAddress + `]
clusterDomain: cluster.local
resolvConf: DIR/resolv.conf
volumePluginDir: DIR/volume-plugins
failSwapOn: false
evictionHard: {memory.available: 100Mi, nodefs.available: 64Mi, imagefs.available: 64Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
`
	// The limits of conntrack belong to the first network namespace.
	proxy = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: DIR/admin.conf}
mode: iptables
clusterCIDR: 10.244.0.0/16
hostnameOverride: ` + nodeName + `
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`
	// restrict_oom_score_adj: without CAP_SYS_RESOURCE runc could not lower it.
	containerd = `version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "DIR/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "/usr/sbin/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "DIR/cni"
`
	// Pods are held to the restricted standard where a namespace does not say otherwise.
	admission = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: PodSecurity
    configuration:
      apiVersion: pod-security.admission.config.k8s.io/v1
      kind: PodSecurityConfiguration
      defaults: {enforce: restricted}
`
	// It reads what Services there are as the administrator. What is elsewhere is played by Services of the namespace
	// example-org: they have names of example.org.
	corefile = `.:53 {
  bind ` + nodeAddress + `
  errors
  rewrite name regex ^([a-z0-9-]+)\.example\.org\.$ {1}.example-org.svc.cluster.local answer auto
  kubernetes cluster.local {
    kubeconfig DIR/admin.conf node
  }
}
`
	cni = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`
)

// writeConfigs writes the configuration of each program.
func writeConfigs(dir string, k *keys) error {
	if err := os.Mkdir(filepath.Join(dir, "cni"), 0o700); err != nil {
		return err
	}
	for _, f := range []struct{ name, text, token string }{
		{"admin.conf", kubeconfig, k.admin.Token},
		{"kubelet.conf", kubeconfig, k.kubelet.Token},
		{"kubelet.yaml", kubelet, ""},
		{"proxy.yaml", proxy, ""},
		{"admission.yaml", admission, ""},
		{"Corefile", corefile, ""},
		{"containerd.toml", containerd, ""},
		{"cni/10-bridge.conflist", cni, ""},
		{"resolv.conf", "nameserver " + nodeAddress + "\n", ""},
	} {
		text := strings.NewReplacer("DIR", dir, "TOKEN", f.token).Replace(f.text)
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
