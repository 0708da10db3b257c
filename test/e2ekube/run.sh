#!/usr/bin/env bash
# run.sh IMAGES HELM KEYGEN: the control plane's chart on a real node, whose kubectl is in the PATH, in a namespace that
# enforces the restricted pod security standard: install, ready, answers; its pod is killed, and its data is there
# after it; upgrade, rollback, drain; backup, loss of the volume and restore; uninstall, which keeps the data. Every
# step has a limit; the first that fails ends the run. KEYGEN makes an age key.
set -Eeuo pipefail
images=$1 helm=$2 keygen=$3
charts=$(cd "$(dirname "$0")/../../deploy/helm" && pwd)

namespace=oscarfed release=oscarfed name=oscarfed limit=300s
k() { kubectl --namespace="$namespace" "$@"; }
say() { printf '%5d s  %s\n' "$SECONDS" "$*"; }

# What a failed step leaves is shown: the node goes with it.
trap '{ k get pods,persistentvolumeclaims,events; k logs statefulset/$name --tail=40; } >&2 || true' ERR

# Local volumes: fsGroup works with them, as it does with what a cloud gives. The node's /var/lib goes with the node.
mkdir -p /var/lib/volume /var/lib/backups
volume() {
  kubectl apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: $2}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: local
  local: {path: /var/lib/$1}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}
YAML
}
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: Namespace
metadata: {name: oscarfed, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: backups, namespace: oscarfed}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}
YAML
volume volume 20Gi
volume backups 1Gi
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

key=$(mktemp) && rm "$key" && "$keygen" -o "$key" 2>/dev/null
k create secret generic oscarfed-recovery --from-file=recovery.age="$key" >/dev/null
install+=(--set backup.enabled=true --set backup.claim=backups
  --set "backup.recoveryRecipients={$(sed -n 's/^# public key: //p' "$key")}")
rm "$key"
"${install[@]}" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
k create job --from="cronjob/$name-backup" backup >/dev/null
# A job that succeeded is deleted at once; the file appears whole.
timeout "$limit" bash -c 'until [ -e /var/lib/backups/oscarfed ]; do sleep 0.2; done'
k wait job/backup --for=delete --timeout=$limit >/dev/null
say "backed up"

# A cluster that is registered after the backup is not in it.
api POST /system/clusters '{"cluster_id":"later","endpoint":"https://later.example.org"}' >/dev/null
authority=$(sha256sum </var/lib/volume/data/pki/ca.crt)
lose() {
  k scale "statefulset/$name" --replicas=0 >/dev/null
  k wait pod "$name-0" --for=delete --timeout=$limit >/dev/null
  k delete persistentvolumeclaim "data-$name-0" --wait --timeout=$limit >/dev/null
  kubectl delete persistentvolume volume --wait --timeout=$limit >/dev/null
  rm -rf /var/lib/volume && mkdir /var/lib/volume
  volume volume 20Gi
}
restore() {
  "${install[@]}" --set restore.enabled=true --set restore.claim=backups --set restore.identity.secret.name=oscarfed-recovery >/dev/null
  k wait job --selector=app.kubernetes.io/component=restore --for=condition=Complete --timeout=$limit >/dev/null
  "${install[@]}" >/dev/null
  k rollout status "statefulset/$name" --timeout=$limit >/dev/null
  kept
  if api GET /system/clusters | grep -q '"cluster_id":"later"'; then
    echo "the store is not that of the backup"
    exit 1
  fi
}
lose
restore
[ "$(sha256sum </var/lib/volume/data/pki/ca.crt)" = "$authority" ] || { echo "clusters would have to join again"; exit 1; }
say "lost its volume, and restored"
# The same upgrade while the control plane runs: it is stopped first, and what it had is moved aside.
restore
ls -d /var/lib/volume/data/etcd.before-* >/dev/null
say "restored once more"

"$helm" uninstall "$release" --namespace="$namespace" --wait --timeout 5m >/dev/null
k get persistentvolumeclaim "data-$name-0" >/dev/null
left=$(k get statefulsets,deployments,services,cronjobs,networkpolicies,poddisruptionbudgets -o name)
[ -z "$left" ] || { echo "uninstall left $left"; exit 1; }
"${install[@]}" >/dev/null
k rollout status "statefulset/$name" --timeout=$limit >/dev/null
kept
say "uninstalled, and installed again with its data"
