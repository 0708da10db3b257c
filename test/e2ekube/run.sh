#!/usr/bin/env bash
# run.sh IMAGES HELM PROGRAMS PREVIOUS: the charts on a real node, whose kubectl is in the PATH, in namespaces that enforce the
# restricted pod security standard: embedded.sh with an embedded etcd, members.sh with three members, federation.sh with
# two clusters, upgrade.sh from the release before, external.sh with another's etcd and gateways. E2E_KUBE_PARTS names
# those to run. Every step has a limit; the first that fails ends the run. PROGRAMS has age-keygen, certificates and
# oscarfed; PREVIOUS has images, charts and oscarfed.
set -Eeuo pipefail
images=$1 helm=$2 programs=$3 previous=$4
here=$(cd "$(dirname "$0")" && pwd)
charts=$(cd "$here/../../deploy/helm" && pwd)
limit=300s namespace=default

say() { printf '%5d s  %s\n' "$SECONDS" "$*"; }
k() { kubectl --namespace="$namespace" "$@"; }
# has TEXT: standard input has it. It is read to its end: who writes to a reader that left dies of it.
has() { [[ $(cat) == *"$1"* ]]; }

# nothing COMMAND...: it prints nothing.
nothing() {
  local printed
  printed=$("$@")
  [ -z "$printed" ] || { echo "$* prints $printed"; return 1; }
}

# What a failed step leaves is shown: the node goes with it.
trap '{ k get pods,jobs,persistentvolumeclaims,events; for pod in $(k get pods -o name); do echo "--- $pod"; k logs "$pod" --tail=40; done; } >&2 || true' ERR

# Local volumes: fsGroup works with them, as it does with what a cloud gives. The node's /var/lib goes with the node.
volume() { # NAME SIZE
  mkdir -p "/var/lib/$1"
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

# claim NAME: a claim with a volume for backups.
claim() {
  volume "$1" 1Gi
  kubectl apply -f - >/dev/null <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1, namespace: $namespace}
spec: {accessModes: [ReadWriteOnce], storageClassName: local, volumeName: $1, resources: {requests: {storage: 1Gi}}}
YAML
}

# backup: one is made as the CronJob makes it. A job that succeeded is deleted at once.
backup() {
  k create job --from="cronjob/$name-backup" backup >/dev/null
  until_shows Completed k get events --field-selector involvedObject.name=backup
  k wait job/backup --for=delete --timeout=$limit >/dev/null
}

# lose CLAIM [POD]: its volume is gone with what is in it, and so is the pod that uses it; there is an empty volume of
# another name.
lose() {
  local volume size
  volume=$(k get persistentvolumeclaim "$1" -o 'jsonpath={.spec.volumeName}')
  size=$(kubectl get persistentvolume "$volume" -o 'jsonpath={.spec.capacity.storage}')
  k delete persistentvolumeclaim "$1" --wait=false >/dev/null
  [ -z "${2:-}" ] || k delete pod "$2" --grace-period=0 --force >/dev/null 2>&1
  kubectl delete persistentvolume "$volume" --wait --timeout=$limit >/dev/null
  rm -rf "/var/lib/$volume"
  volume "$volume-again" "$size"
}

# restricted: makes the namespace, with the administrator's password.
restricted() {
  kubectl create namespace "$namespace" >/dev/null
  kubectl label namespace "$namespace" pod-security.kubernetes.io/enforce=restricted >/dev/null
  k create secret generic oscarfed-admin --from-literal=password=correct-horse-battery-staple >/dev/null
}

# api METHOD PATH [BODY]: asks the control plane through its Service, which kube-proxy may learn of a second later.
api() {
  local address
  address=http://$(k get service "$name" -o 'jsonpath={.spec.clusterIP}'):8080
  curl -s --show-error --fail-with-body --max-time 60 --retry 30 --retry-delay 1 --retry-all-errors \
    -u oscar:correct-horse-battery-staple -X "$1" ${3:+-H 'Content-Type: application/json' -d "$3"} "$address$2"
}
register() { api POST /system/clusters '{"cluster_id":"oscar-cluster-a","endpoint":"https://oscar.example.org"}' >/dev/null; }
# kept: what was written is there.
kept() { api GET /system/clusters/oscar-cluster-a | has '"cluster_id":"oscar-cluster-a"'; }
# lacks CLUSTER: the store is one from before it was registered.
lacks() {
  local clusters
  clusters=$(api GET /system/clusters)
  if has "\"cluster_id\":\"$1\"" <<<"$clusters"; then
    echo "the store is not that of the backup"
    return 1
  fi
}

# until_shows TEXT COMMAND...: what the command prints has it.
until_shows() {
  local text=$1 end=$((SECONDS + ${limit%s}))
  shift
  until "$@" | has "$text"; do
    if [ $SECONDS -ge $end ]; then
      echo "no $text in what this prints: $*"
      "$@" || true
      return 1
    fi
    sleep 0.5
  done
}

# replaced POD UID: another pod of this name is ready.
replaced() {
  local after
  until after=$(k get pod "$1" -o 'jsonpath={.metadata.uid}' 2>/dev/null) && [ "$after" != "$2" ]; do sleep 0.2; done
  k wait pod "$1" --for=condition=Ready --timeout=$limit >/dev/null
}
uid() { k get pod "$1" -o 'jsonpath={.metadata.uid}'; }

kubectl apply -f - >/dev/null <<'YAML'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
YAML
ctr images import "$images" >/dev/null
say "images imported"

for part in ${E2E_KUBE_PARTS:-embedded members federation upgrade external}; do
  echo "--- $part"
  # shellcheck source=/dev/null
  . "$here/$part.sh"
done
