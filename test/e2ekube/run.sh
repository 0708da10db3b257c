#!/usr/bin/env bash
# run.sh PROGRAMS PREVIOUS: the charts on a real node, whose kubectl is in the PATH and whose pods are held to the
# restricted pod security standard: embedded.sh with an embedded etcd, members.sh with three members, federation.sh with
# two clusters, upgrade.sh from the release before, external.sh with another's etcd and gateways. E2E_KUBE_PARTS names
# those to run. Every step has a limit; the first that fails ends the run. PROGRAMS has age-keygen, block, certificates,
# helm, oscarfed and the images; PREVIOUS has images, charts and oscarfed.
set -Eeuo pipefail
programs=$1 previous=$2
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)
charts=$tree/deploy/helm
PATH=$programs:$PATH
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

# page PAGE HEADING N: the block of docs/PAGE is run as it stands there, in $work, where the files lie that it names.
page() {
  block "$1" "$2" "$3" >"$work/block.sh"
  (cd "$work" && timeout "$limit" bash -e block.sh)
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

# upgrade [VALUES...]: of the control plane, whose other values stay.
upgrade() { helm upgrade "$release" "$charts/oscarfed" --namespace="$namespace" --reset-then-reuse-values "$@" >/dev/null; }

# api METHOD PATH [BODY]: asks the control plane through its Service, which kube-proxy may learn of a second later.
api() {
  local address
  address=$(k get service "$name" -o 'jsonpath={.spec.clusterIP}')
  curl -s --show-error --fail-with-body --max-time 60 --retry 30 --retry-delay 1 --retry-all-errors --cacert "$work/api/ca.crt" \
    -u "oscar:$(cat "$work/admin-password")" -X "$1" ${3:+-H 'Content-Type: application/json' -d "$3"} \
    --connect-to "::$address:" "https://$name.$namespace.svc:8080$2"
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

# What is outside of this Kubernetes has a name of example.org, and is played by a Service here.
kubectl create namespace example-org >/dev/null
kubectl apply -f - >/dev/null <<'YAML'
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
YAML
ctr images import "$programs"/images/*.tar >/dev/null
say "images imported"

for part in ${E2E_KUBE_PARTS:-embedded members federation upgrade external}; do
  echo "--- $part"
  work=$(mktemp -d)
  ln -s "$tree/deploy" "$work/deploy"
  printf correct-horse-battery-staple >"$work/admin-password"
  # shellcheck source=/dev/null
  . "$here/$part.sh"
  rm -r "$work"
done
