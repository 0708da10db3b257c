#!/usr/bin/env bash
# run.sh IMAGES HELM: the control plane's chart on a real node, whose kubectl is in the PATH, in a namespace that
# enforces the restricted pod security standard: install, ready, answers; its pod is killed, and its data is there
# after it; upgrade, rollback, drain, uninstall, which keeps the data. Every step has a limit; the first that fails
# ends the run.
set -Eeuo pipefail
images=$1 helm=$2
charts=$(cd "$(dirname "$0")/../../deploy/helm" && pwd)

namespace=oscarfed release=oscarfed name=oscarfed limit=300s
k() { kubectl --namespace="$namespace" "$@"; }
say() { printf '%5d s  %s\n' "$SECONDS" "$*"; }

# What a failed step leaves is shown: the node goes with it.
trap 'k get pods,events; k logs statefulset/$name --tail=40 || true' ERR

# A local volume: fsGroup works with it, as it does with what a cloud gives. The node's /var/lib goes with the node.
mkdir -p /var/lib/volume
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec:
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /var/lib/volume}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: oscarfed, labels: {pod-security.kubernetes.io/enforce: restricted}}
YAML
ctr images import "$images" >/dev/null
say "images imported"

k create secret generic oscarfed-admin --from-literal=password=correct-horse-battery-staple >/dev/null
install=("$helm" upgrade --install "$release" "$charts/oscarfed" --namespace="$namespace"
  --set admin.passwordSecret.name=oscarfed-admin --set api.insecureHTTP=true
  --set 'etcd.advertise={https://etcd.example.org:2379}')
"${install[@]}" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
say "installed and ready"

# api METHOD PATH [BODY]: asks the control plane through its Service, which kube-proxy may learn of a second later.
api() {
  local address
  address=http://$(k get service "$name" -o 'jsonpath={.spec.clusterIP}'):8080
  curl -s --show-error --fail-with-body --max-time 60 --retry 30 --retry-delay 1 --retry-all-errors \
    -u oscar:correct-horse-battery-staple -X "$1" ${3:+-H 'Content-Type: application/json' -d "$3"} "$address$2"
}
api GET /health >/dev/null
cluster='{"cluster_id":"oscar-cluster-a","endpoint":"https://oscar.example.org"}'
api POST /system/clusters "$cluster" >/dev/null
# kept: what was written is there.
kept() { api GET /system/clusters/oscar-cluster-a | grep -q '"cluster_id":"oscar-cluster-a"'; }
kept
say "a cluster is registered"

before=$(k get pod "$name-0" -o 'jsonpath={.metadata.uid}')
k delete pod "$name-0" --grace-period=0 --force >/dev/null 2>&1
until after=$(k get pod "$name-0" -o 'jsonpath={.metadata.uid}' 2>/dev/null) && [ "$after" != "$before" ]; do
  sleep 0.2
done
k wait pod "$name-0" --for=condition=Ready --timeout=$limit >/dev/null
kept
say "killed, and back with its data"

"${install[@]}" --set podAnnotations.upgraded=yes >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
"$helm" rollback "$release" 1 --namespace="$namespace" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "upgraded and rolled back"

kubectl drain node1 --ignore-daemonsets --delete-emptydir-data --timeout=$limit >/dev/null 2>&1
kubectl uncordon node1 >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "drained and back"

"$helm" uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
k get persistentvolumeclaim "data-$name-0" >/dev/null
left=$(k get statefulsets,deployments,services,cronjobs,networkpolicies,poddisruptionbudgets -o name)
[ -z "$left" ] || { echo "uninstall left $left"; exit 1; }
"${install[@]}" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "uninstalled, and installed again with its data"
